// The page: the list of sessions, or the way in for who is not known yet.

import "./page.css";

import { ApiError, call, type Session } from "./api";

const app = document.getElementById("app")!;

async function show(): Promise<void> {
  try {
    const { sessions } = await call<{ sessions: Session[] }>("GET", "/v1/sessions");
    const items = sessions.map((session) => {
      const item = document.createElement("li");
      item.textContent = `${session.name ?? session.id} · ${session.environment} · ${session.state}`;
      return item;
    });
    const list = document.createElement("ul");
    list.append(...items);
    app.replaceChildren(heading("Sessions"), items.length ? list : document.createTextNode("There are none."));
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    showLogin("");
  }
}

function showLogin(problem: string): void {
  const form = document.createElement("form");
  const label = document.createElement("label");
  const token = document.createElement("input");
  const button = document.createElement("button");
  const said = document.createElement("p");
  token.type = "password";
  token.autocomplete = "current-password";
  label.append("Token ", token);
  button.textContent = "Log in";
  said.setAttribute("role", "alert");
  said.textContent = problem;
  form.append(label, button, said);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    call("POST", "/login", { token: token.value }).then(show, (error: Error) => showLogin(error.message));
  });
  app.replaceChildren(heading("Interpreter"), form);
  token.focus();
}

function heading(text: string): HTMLElement {
  const element = document.createElement("h1");
  element.textContent = text;
  return element;
}

void show();
