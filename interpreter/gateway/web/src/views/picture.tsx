// A picture from the workspace, as it is now. A browser would show what it had of this address before.

import { useEffect, useRef, useState } from "preact/hooks";
import { headers } from "../api";
import { useNear } from "./near";

export function Picture({ url, version, alt }: { url: string; version: string | number; alt: string }) {
  const element = useRef<HTMLImageElement>(null);
  const near = useNear(element);
  const [shown, setShown] = useState("");
  useEffect(() => {
    if (!near) return;
    const abort = new AbortController();
    fetch(`${url}?inline=true`, { headers, cache: "no-store", signal: abort.signal })
      .then((answer) => (answer.ok ? answer.blob() : Promise.reject()))
      .then((found) => setShown(URL.createObjectURL(found)))
      .catch(() => {}); // the words for it stand there instead
    return () => abort.abort();
  }, [near, url, version]);
  useEffect(() => () => URL.revokeObjectURL(shown), [shown]);
  return <img ref={element} src={shown || undefined} alt={alt} />;
}
