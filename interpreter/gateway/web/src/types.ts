// What the API speaks of, as far as the page looks at it.

import type { Gap } from "./live/text";

export type SessionState = "creating" | "ready" | "busy" | "paused" | "stopped" | "failed";

export interface Session {
  id: string;
  name: string | null;
  state: SessionState;
  reason: string | null;
  environment: string;
  runtime: string;
  isolation: string;
  queue_position: number | null;
  labels: Record<string, string>;
  limits: Record<string, number>;
  workspace: string | null;
  usage: { cpu_seconds: number; memory_bytes: number; processes: number } | null;
  on_idle: "pause" | "stop" | "nothing";
  remaining: { executions: number; lifetime_seconds: number | null; idle_seconds: number | null };
  contexts: string[];
  running: { execution_id: string; line: string; by: string | null; started_at: string | null }[];
  inputs: string[];
  created_at: string;
  last_activity: string;
}

export type Status = "queued" | "running" | "ok" | "error" | "timeout" | "cancelled" | "lost";

export type MimeBundle = Record<string, unknown>;

export type Output =
  | { output_type: "stream"; name: "stdout" | "stderr"; text: string; gap?: Gap }
  | {
      output_type: "display_data" | "execute_result";
      data: MimeBundle;
      metadata: Record<string, unknown>;
      execution_count?: number | null;
      // How much it is, as whoever read it has measured it.
      size?: number;
    }
  | { output_type: "error"; ename: string; evalue: string; traceback: string[] };

export interface FileChange {
  path: string;
  change: "created" | "changed" | "deleted";
  size: number | null;
  mime_type: string | null;
  url: string | null;
}

export interface Execution {
  id: string;
  session_id: string;
  code: string;
  context: string | null;
  by?: string | null;
  status: Status;
  reason: string | null;
  execution_count: number | null;
  exit_code: number | null;
  outputs: Output[];
  truncated: { total_bytes: number; kept_bytes: number; url: string } | null;
  queued_at: string;
  started_at: string | null;
  timeout: number | null;
  duration_ms: number | null;
  usage: { cpu_seconds: number; memory_peak_bytes: number | null } | null;
  files: FileChange[] | null;
  files_left_out: number;
}

export interface ExecutionPage {
  executions: Execution[];
  last_event: number;
  follow_after: number;
}

export interface FileEntry {
  name: string;
  path: string | null;
  type: "file" | "directory" | "link" | "other";
  size: number;
  modified_at: string;
  mime_type: string | null;
}

export interface Directory {
  path: string;
  entries: FileEntry[];
  more: boolean;
}

export interface Dataset {
  name: string;
  file_count: number;
  bytes: number;
}

// An event of a session's stream. Events of one kind that follow each other may arrive joined:
// `seq` is then the number of the last one.
export interface StreamEvent {
  seq: number;
  type:
    | "status" | "stream" | "display" | "update" | "clear" | "error"
    | "input_request" | "warning" | "files" | "done";
  id: string | null;
  data: any;
}

export const isFinal = (status: Status): boolean => status !== "queued" && status !== "running";
