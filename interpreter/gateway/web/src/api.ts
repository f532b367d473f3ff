// The gateway's API as the page uses it. Who asks is told by a cookie that no script can read.

export interface Session {
  id: string;
  name: string | null;
  state: string;
  environment: string;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const answer = await fetch(path, {
    method,
    headers: { "X-Interpreter": "page", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    body: body === undefined ? null : JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) {
    const { code, message } = JSON.parse(text).error;
    throw new ApiError(answer.status, code, message);
  }
  return (text === "" ? undefined : JSON.parse(text)) as T;
}
