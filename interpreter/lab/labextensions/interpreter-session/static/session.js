// @ts-check
/**
 * The session's notebook, live: cells that others run in the session, an agent or another page, are put
 * into it with their outputs as they happen.
 *
 * JupyterLab itself shows what its own page runs. Everything else is told here: every message of a cell has
 * in its parent header the execution (`execution_id`, or `msg_id` for an agent's) and the notebook cell that
 * it was run from (`cell_id`), if any. A cell that is told from its beginning is emptied first, so that
 * nothing is there twice; what ran while this page was not connected is asked for when it is.
 *
 * This file is a module federation container, written by hand: it takes JupyterLab's own packages and needs
 * no building.
 */
(() => {
  'use strict';

  const NAME = 'interpreter-session';
  const OURS = 'interpreter';
  /** @type {any} */
  let packages;

  /** @param {string} name */
  async function load(name) {
    const [version] = Object.keys(packages[name]);
    return (await packages[name][version].get())();
  }

  /** The notebook of the session in one panel. */
  class LiveNotebook {
    /**
     * @param {any} panel
     * @param {(after: string | null) => Promise<{cells: any[], settled: string | null}>} recorded
     */
    constructor(panel, recorded) {
      this._panel = panel;
      this._recorded = recorded;
      /** @type {Map<string, any>} Execution → the model of the cell that shows it. */
      this._cells = new Map();
      /** @type {Set<string>} Executions that are running. */
      this._running = new Set();
      /** @type {Set<string>} Executions that are shown whole. */
      this._whole = new Set();
      /** @type {Set<string>} Executions that were taken from the record: what still comes is in it. */
      this._closed = new Set();
      /** @type {Map<string, {outputs: any, index: number}[]>} Display id → where it is shown. */
      this._displays = new Map();
      /** @type {WeakSet<any>} Outputs that are emptied before the next one. */
      this._emptied = new WeakSet();
      /** @type {Set<string>} All cells that this page has had. */
      this._known = new Set();
      /** @type {any[] | null} What came before the notebook was there. */
      this._early = [];
      /** @type {string | null} */
      this._settled = null;

      const context = panel.sessionContext;
      context.iopubMessage.connect((_, message) => this._hear(message));
      context.connectionStatusChanged.connect((_, status) => {
        if (status === 'connected' && this._early === null) {
          void this._catchUp();
        }
      });
      panel.context.saveState.connect((_, state) => {
        if (state === 'started') {
          this._noteDeleted();
        }
      });
      void panel.context.ready.then(() => this._begin());
    }

    get _model() {
      return this._panel.content.model;
    }

    _begin() {
      const facts = this._model.getMetadata(OURS) ?? {};
      this._settled = facts.settled ?? null;
      for (const id of facts.deleted ?? []) {
        this._known.add(id);
      }
      for (const cell of this._model.cells) {
        const { execution, final } = cell.getMetadata(OURS) ?? {};
        if (final) {
          this._whole.add(execution);
        }
      }
      this._know();
      this._model.cells.changed.connect(() => this._know());
      const early = this._early ?? [];
      this._early = null;
      early.forEach(message => this._hear(message));
      if (this._panel.sessionContext.session?.kernel?.connectionStatus === 'connected') {
        void this._catchUp();
      }
    }

    // -- as it happens

    /** @param {any} message */
    _hear(message) {
      const parent = message.parent_header;
      const kernel = this._panel.sessionContext.session?.kernel;
      if (!kernel || parent?.msg_type !== 'execute_request' || parent.session === kernel.clientId) {
        return; // not of a cell, or JupyterLab's own
      }
      if (this._early !== null) {
        this._early.push(message);
        return;
      }
      const execution = parent.execution_id ?? parent.msg_id;
      if (this._closed.has(execution) || this._model === null) {
        return;
      }
      const { content } = message;
      const type = message.header.msg_type;
      if (type === 'execute_input') {
        this._start(execution, parent.cell_id ?? execution, content);
        return;
      }
      if (type === 'update_display_data') {
        this._update(content);
        return;
      }
      const cell = this._cells.get(execution) ?? this._find(parent.cell_id ?? execution);
      if (!cell || cell.isDisposed) {
        return;
      }
      switch (type) {
        case 'stream':
        case 'display_data':
        case 'execute_result':
        case 'error':
          this._add(cell.outputs, type, content);
          break;
        case 'clear_output':
          cell.outputs.clear(content.wait);
          if (content.wait) {
            this._emptied.add(cell.outputs);
          } else {
            this._forgetDisplays(cell.outputs);
          }
          break;
        case 'status':
          if (content.execution_state === 'idle' && this._running.delete(execution)) {
            cell.executionState = 'idle';
            this._whole.add(execution);
          }
          break;
      }
    }

    /**
     * A cell begins to run, or is told from its beginning.
     *
     * @param {string} execution
     * @param {string} id
     * @param {any} content
     */
    _start(execution, id, content) {
      let cell = this._find(id);
      if (!cell) {
        if (this._known.has(id)) {
          return; // it was deleted here
        }
        cell = this._insert({ id, source: content.code, metadata: { [OURS]: { execution } } });
      } else {
        this._empty(cell);
      }
      this._cells.set(execution, cell);
      this._running.add(execution);
      cell.executionCount = content.execution_count || null;
      cell.executionState = 'running';
    }

    /** @param {any} cell */
    _empty(cell) {
      // Ours, if it ended while this page was away, and is taken from the record.
      const widget = this._panel.content.widgets.find(one => one.model === cell);
      widget?.outputArea?.future?.dispose();
      cell.trusted = false; // somebody else ran it
      cell.outputs.clear();
      this._forgetDisplays(cell.outputs);
    }

    /**
     * @param {any} outputs
     * @param {string} type
     * @param {any} content
     */
    _add(outputs, type, content) {
      if (this._emptied.delete(outputs)) {
        this._forgetDisplays(outputs);
      }
      const { transient, ...output } = content;
      outputs.add({ ...output, output_type: type });
      const id = transient?.display_id;
      if (id) {
        const places = this._displays.get(id) ?? [];
        this._displays.set(id, [...places, { outputs, index: outputs.length - 1 }]);
      }
    }

    /** @param {any} content */
    _update(content) {
      for (const { outputs, index } of this._displays.get(content.transient?.display_id) ?? []) {
        if (!outputs.isDisposed && index < outputs.length) {
          const { data, metadata } = content;
          outputs.set(index, { ...outputs.get(index).toJSON(), data, metadata });
        }
      }
    }

    /** @param {any} outputs */
    _forgetDisplays(outputs) {
      for (const [id, places] of this._displays) {
        this._displays.set(id, places.filter(place => place.outputs !== outputs));
      }
    }

    // -- after it happened

    /** Puts in what was run while this page was not connected. */
    async _catchUp() {
      let news;
      try {
        news = await this._recorded(this._settled);
      } catch (error) {
        console.warn(error); // it is asked again with the next connection
        return;
      }
      if (this._panel.isDisposed) {
        return;
      }
      const { cells, settled } = news;
      this._settled = settled;
      const last = new Map(cells.map(cell => [cell.id, cell]));
      for (const recorded of last.values()) {
        const { execution, final } = recorded.metadata[OURS];
        if (final && !this._whole.has(execution)) {
          this._take(recorded, execution);
        }
      }
    }

    /**
     * @param {any} recorded
     * @param {string} execution
     */
    _take(recorded, execution) {
      const cell = this._find(recorded.id);
      const count = recorded.execution_count;
      if (!cell && this._known.has(recorded.id)) {
        return; // it was deleted here
      }
      if (cell && !this._cells.has(execution) && this._isOwnAndDone(cell, count)) {
        return;
      }
      this._closed.add(execution);
      this._whole.add(execution);
      this._running.delete(execution);
      if (!cell) {
        this._insert(recorded);
        return;
      }
      this._empty(cell);
      cell.outputs.fromJSON(recorded.outputs);
      cell.executionCount = count;
      cell.executionState = 'idle';
    }

    /**
     * Whether JupyterLab itself has shown this run of a cell.
     *
     * @param {any} cell
     * @param {number | null} count
     */
    _isOwnAndDone(cell, count) {
      const widget = this._panel.content.widgets.find(one => one.model === cell);
      const { future } = widget?.outputArea ?? {};
      return future && cell.executionState !== 'running' && cell.executionCount === count;
    }

    // -- cells

    /** @param {string} id */
    _find(id) {
      for (const cell of this._model.cells) {
        if (cell.id === id && cell.type === 'code') {
          return cell;
        }
      }
      return null;
    }

    /**
     * Puts in a cell after all others, but before those that run and before an empty one to type in.
     *
     * @param {any} given
     */
    _insert(given) {
      const cells = this._model.cells;
      let index = cells.length;
      const last = index > 0 ? cells.get(index - 1) : null;
      if (last?.type === 'code' && !last.sharedModel.getSource().trim() && !last.outputs.length) {
        index -= 1;
      }
      const running = new Set([...this._running].map(execution => this._cells.get(execution)));
      while (index > 0 && running.has(cells.get(index - 1))) {
        index -= 1;
      }
      const { id, source, metadata, outputs = [], execution_count = null } = given;
      const cell = { cell_type: 'code', id, source, metadata, outputs, execution_count };
      this._model.sharedModel.transact(() => {
        this._model.sharedModel.insertCell(index, cell);
      }, false);
      return cells.get(index);
    }

    _know() {
      for (const cell of this._model?.cells ?? []) {
        this._known.add(cell.id);
      }
    }

    /** The notebook remembers which cells a person deleted: they do not come back from the record. */
    _noteDeleted() {
      if (this._early !== null || this._model === null) {
        return;
      }
      const there = new Set(Array.from(this._model.cells, cell => cell.id));
      const deleted = [...this._known].filter(id => !there.has(id));
      const facts = this._model.getMetadata(OURS) ?? {};
      if (JSON.stringify(facts.deleted ?? []) !== JSON.stringify(deleted)) {
        this._model.setMetadata(OURS, { ...facts, deleted });
      }
    }
  }

  window['_JUPYTERLAB'] ??= {};
  window['_JUPYTERLAB'][NAME] = {
    /** @param {any} scope */
    async init(scope) {
      packages = scope;
    },

    async get() {
      const { INotebookTracker } = await load('@jupyterlab/notebook');
      const { ServerConnection } = await load('@jupyterlab/services');
      const { PageConfig, URLExt } = await load('@jupyterlab/coreutils');
      const settings = ServerConnection.makeSettings();

      /** @param {string | null} after */
      const recorded = async after => {
        const query = after ? `?after=${encodeURIComponent(after)}` : '';
        const url = URLExt.join(settings.baseUrl, 'interpreter/recorded') + query;
        const response = await ServerConnection.makeRequest(url, {}, settings);
        if (!response.ok) {
          throw new Error(`What was run meanwhile is not known: ${response.status}`);
        }
        return response.json();
      };

      const plugin = {
        id: `${NAME}:live`,
        description: 'Shows what others run in the session.',
        autoStart: true,
        requires: [INotebookTracker],
        /** @param {any} app @param {any} tracker */
        activate: (app, tracker) => {
          tracker.widgetAdded.connect((/** @type {any} */ _, /** @type {any} */ panel) => {
            if (panel.context.path === PageConfig.getOption('interpreterNotebook')) {
              new LiveNotebook(panel, recorded);
            }
          });
        }
      };
      return () => ({ __esModule: true, default: plugin });
    }
  };
})();
