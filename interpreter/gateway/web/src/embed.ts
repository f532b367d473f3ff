// One session's outputs, for a page elsewhere: /embed/{session}#token=…

const session = location.pathname.split("/")[2] ?? "";
const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";

async function show(): Promise<void> {
  const answer = await fetch(`/v1/sessions/${session}/executions`, {
    headers: { Authorization: `Bearer ${token}` },
  });
  const told = await answer.json();
  const texts = answer.ok ? told.executions.map((execution: { text: string }) => execution.text) : [told.error.message];
  for (const text of texts) {
    const output = document.createElement("pre");
    output.textContent = text;
    document.getElementById("app")!.append(output);
  }
}

void show();
