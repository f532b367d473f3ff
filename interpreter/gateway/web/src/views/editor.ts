// The editor: CodeMirror with Python, completions and tooltips from the session's own kernel.

import {
  acceptCompletion,
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  completionStatus,
  startCompletion,
  type CompletionContext,
  type CompletionResult,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from "@codemirror/commands";
import { python, pythonLanguage } from "@codemirror/lang-python";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec, StateEffect, StateField } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  keymap,
  placeholder,
  showTooltip,
  type Command,
  type Tooltip,
} from "@codemirror/view";
import { classHighlighter, highlightCode } from "@lezer/highlight";
import type { Span } from "../live/text";
import { spans } from "../live/text";

export interface EditorOptions {
  parent: HTMLElement;
  text: string;
  label: string;
  run(keep: boolean): void;
  earlier(step: -1 | 1): string | null;
  changed(text: string): void;
  complete(code: string, cursor: number): Promise<{ matches: string[]; cursor_start: number; cursor_end: number }>;
  inspect(code: string, cursor: number): Promise<{ found: boolean; data: Record<string, unknown> }>;
}

export function coloured(text: string): Span[] {
  const found: Span[] = [];
  highlightCode(
    text,
    pythonLanguage.parser.parse(text),
    classHighlighter,
    (part, style) => found.push({ text: part, style }),
    () => found.push({ text: "\n", style: "" }),
  );
  return found;
}

// The kernel counts characters, JavaScript counts UTF-16 units.
const toCharacters = (text: string, units: number): number => [...text.slice(0, units)].length;
const toUnits = (text: string, characters: number): number => [...text].slice(0, characters).join("").length;

const setTip = StateEffect.define<Tooltip | null>();
const tip = StateField.define<Tooltip | null>({
  create: () => null,
  update(value, transaction) {
    for (const effect of transaction.effects) if (effect.is(setTip)) return effect.value;
    return transaction.docChanged || transaction.selection ? null : value;
  },
  provide: (field) => showTooltip.from(field),
});

export function makeEditor(options: EditorOptions): EditorView {
  const complete = async (context: CompletionContext): Promise<CompletionResult | null> => {
    const text = context.state.doc.toString();
    const answer = await options.complete(text, toCharacters(text, context.pos)).catch(() => null);
    if (!answer || context.aborted || !answer.matches.length) return null;
    const from = toUnits(text, answer.cursor_start);
    return {
      from,
      to: toUnits(text, answer.cursor_end),
      options: answer.matches.slice(0, 500).map((label) => ({ label })),
      validFor: /^[\w.]*$/,
    };
  };

  const inspect: Command = (view) => {
    const text = view.state.doc.toString();
    const pos = view.state.selection.main.head;
    void options.inspect(text, toCharacters(text, pos)).then(({ found, data }) => {
      const said = data["text/plain"];
      if (!found || typeof said !== "string") return;
      view.dispatch({ effects: setTip.of({ pos, above: true, create: () => ({ dom: tipElement(said) }) }) });
    }, () => {});
    return true;
  };

  const tab: Command = (view) => {
    if (completionStatus(view.state) === "active") return acceptCompletion(view);
    const { main } = view.state.selection;
    const line = view.state.doc.lineAt(main.head);
    const typed = line.text.slice(0, main.head - line.from);
    if (!main.empty || !/\S$/.test(typed)) return indentMore(view);
    return startCompletion(view);
  };

  const recall = (step: -1 | 1): Command => (view) => {
    const { main } = view.state.selection;
    const edge = step < 0 ? main.head === 0 : main.head === view.state.doc.length;
    if (!main.empty || !edge) return false;
    const text = options.earlier(step);
    if (text === null) return false;
    setText(view, text, step < 0 ? 0 : text.length);
    return true;
  };

  const does = (what: () => void): Command => () => {
    what();
    return true;
  };

  const keys = [
    { key: "Shift-Enter", run: does(() => options.run(false)) },
    { key: "Mod-Enter", run: does(() => options.run(true)) },
    { key: "Tab", run: tab, shift: inspect },
    { key: "Mod-]", run: indentMore },
    { key: "Mod-[", run: indentLess },
    { key: "ArrowUp", run: recall(-1) },
    { key: "ArrowDown", run: recall(1) },
    { key: "Escape", run: leaveOrClose },
  ];

  return new EditorView({
    parent: options.parent,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        nonce(),
        Prec.high(keymap.of(keys)),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        autocompletion({ override: [complete], activateOnTyping: false, interactionDelay: 0, icons: false }),
        python(),
        indentUnit.of("    "),
        syntaxHighlighting(classHighlighter),
        tip,
        placeholder("Write code. Shift-Enter runs it."),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": options.label }),
        EditorView.updateListener.of((update) => update.docChanged && options.changed(update.state.doc.toString())),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...defaultKeymap, ...historyKeymap]),
      ],
    }),
  });
}

export function setText(view: EditorView, text: string, cursor = text.length): void {
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, selection: { anchor: cursor } });
}

// Tab writes in the editor; after Escape it leaves it, so that nobody is held by the keyboard.
const leaveOrClose: Command = (view) => {
  if (view.state.field(tip)) {
    view.dispatch({ effects: setTip.of(null) });
    return true;
  }
  if (completionStatus(view.state) !== null) return false;
  view.setTabFocusMode(2000);
  return false;
};

// The policy of the page lets no style in that does not have this number.
function nonce() {
  const meta = document.querySelector<HTMLMetaElement>("meta[name=csp-nonce]");
  return meta?.nonce ? EditorView.cspNonce.of(meta.nonce) : [];
}

function tipElement(text: string): HTMLElement {
  const element = document.createElement("pre");
  element.className = "tip";
  for (const { text: part, style } of spans(text.slice(0, 8_000))) {
    const piece = document.createElement("span");
    piece.className = style;
    piece.textContent = part;
    element.append(piece);
  }
  return element;
}
