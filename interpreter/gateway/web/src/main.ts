// The page for people: sessions, and each as a live notebook with its files and terminals.

import "./page.css";

import { start } from "./app";

start(document.getElementById("app")!);
