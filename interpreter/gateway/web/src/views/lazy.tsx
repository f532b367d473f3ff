// Parts of the page that are fetched when they are first shown.

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { explain } from "../api";

export function lazily<P extends object>(load: () => Promise<ComponentType<P>>) {
  let found: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const [, loaded] = useState(0);
    const [problem, setProblem] = useState("");
    useEffect(() => {
      if (found) return;
      load().then(
        (component) => {
          found = component;
          loaded(1);
        },
        (error) => setProblem(explain(error)),
      );
    }, []);
    if (problem) return <p class="problem">{problem}</p>;
    const Found = found;
    return Found ? <Found {...props} /> : <div class="loading" aria-busy="true" />;
  };
}
