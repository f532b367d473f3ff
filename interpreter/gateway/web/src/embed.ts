// One session's outputs, live, for a page elsewhere: /embed/{session}#token=…

import "./page.css";

import { startEmbedded } from "./embedded";

startEmbedded(document.getElementById("app")!);
