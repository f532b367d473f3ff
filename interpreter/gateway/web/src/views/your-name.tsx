// What one is called beside one's cells.

import { callMe, personName, UNNAMED } from "../person";
import { Dialog } from "./dialogs";

export function YourName({ onClose }: { onClose: () => void }) {
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    callMe(String(new FormData(event.currentTarget as HTMLFormElement).get("name") ?? ""));
    onClose();
  };
  return (
    <Dialog title="Your name" onClose={onClose}>
      <form class="form" onSubmit={submit}>
        <label>
          Beside what you run, for others to see
          <input
            name="name"
            defaultValue={personName.value === UNNAMED ? "" : personName.value}
            placeholder={UNNAMED}
            maxLength={100}
            autocomplete="nickname"
            autofocus
          />
        </label>
        <div class="dialog-actions">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button class="primary">Save</button>
        </div>
      </form>
    </Dialog>
  );
}
