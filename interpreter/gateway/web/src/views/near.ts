// Whether something is on the screen, or will soon be.

import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";

export function useNear(place: RefObject<Element | null>): boolean {
  const [near, setNear] = useState(false);
  useEffect(() => {
    const look = new IntersectionObserver(
      ([entry]) => {
        if (!entry!.isIntersecting) return;
        look.disconnect();
        setNear(true);
      },
      { rootMargin: "600px" },
    );
    look.observe(place.current!);
    return () => look.disconnect();
  }, []);
  return near;
}
