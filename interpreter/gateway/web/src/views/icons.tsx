// Small drawings. They never stand alone: whatever shows one has a label.

const PATHS: Record<string, string> = {
  plus: "M8 3v10M3 8h10",
  play: "M5 3.5v9l7.5-4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  stop: "M4.5 4.5h7v7h-7z",
  trash: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.6 8.5h5.8l.6-8.5M6.8 7v4M9.2 7v4",
  restart: "M12.5 8a4.5 4.5 0 1 1-1.4-3.3M12.5 2.5v3h-3",
  again: "M3 3.5l5 4.5-5 4.5zM9 3.5l5 4.5-5 4.5z",
  download: "M8 2.5v7M5 7l3 3 3-3M3 12.5h10",
  upload: "M8 10V3M5 5.5l3-3 3 3M3 12.5h10",
  more: "M2.5 8a1 1 0 1 0 2 0a1 1 0 1 0-2 0M7 8a1 1 0 1 0 2 0a1 1 0 1 0-2 0M11.5 8a1 1 0 1 0 2 0a1 1 0 1 0-2 0",
  close: "M4 4l8 8M12 4l-8 8",
  edit: "M3 13l.6-2.8L10.8 3l2.2 2.2-7.2 7.2zM9.5 4.3l2.2 2.2",
  copy: "M5.5 5.5h7v7h-7zM3.5 10.5v-7h7",
  sun: "M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6M8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z",
  auto: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
  leave: "M6.5 3h-3v10h3M6.5 8h6.5M10.5 5.5L13 8l-2.5 2.5",
  folder: "M2.5 4.5v8h11V6H8L6.5 4.5z",
  file: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
  image: "M2.5 3.5h11v9h-11zM2.5 11l3.5-3.5 2.5 2.5 2-2 3 3M10.5 6h.01",
  link: "M7 9a2.5 2.5 0 0 0 3.5 0l2-2A2.5 2.5 0 0 0 9 3.5l-.8.8M9 7a2.5 2.5 0 0 0-3.5 0l-2 2A2.5 2.5 0 0 0 7 12.5l.8-.8",
  up: "M8 13V3.5M4 7.5l4-4 4 4",
  lab: "M6 2.5h4M6.8 2.5v4L3.5 13h9L9.2 6.5v-4M5.3 9.5h5.4",
  chevron: "M6 4l4 4-4 4",
};

export function Icon({ name }: { name: string }) {
  const filled = ["play", "stop", "again", "more"].includes(name);
  return (
    <svg class="glyph" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" data-filled={filled || undefined}>
      <path d={PATHS[name]} />
    </svg>
  );
}
