// Builds the page: src/ becomes dist/, which the gateway serves as it is.
//
// Every file in dist/assets/ has a hash of its contents in its name, so that a browser may keep it for
// ever, and is there compressed, so that nobody has to do that for each visitor. dist/manifest.json
// lists them; it is written last, so what is there is complete.

import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, extname } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";

import { build } from "esbuild";

const PAGES = { index: "main", embed: "embed", frame: "frame" };
const TYPES = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
  ".png": "image/png",
  ".json": "application/json",
  ".txt": "text/plain; charset=utf-8",
};
const brotli = promisify(brotliCompress);
const gzipped = promisify(gzip);

await rm("dist", { recursive: true, force: true });
await mkdir("dist/assets", { recursive: true });

const built = await build({
  entryPoints: Object.values(PAGES).map((name) => `src/${name}.ts`),
  outdir: "dist/assets",
  bundle: true,
  splitting: true,
  minify: true,
  format: "esm",
  target: "es2022",
  entryNames: "[name]-[hash]",
  chunkNames: "chunk-[hash]",
  assetNames: "[name]-[hash]",
  loader: { ".woff2": "file", ".svg": "file", ".png": "file" },
  publicPath: "/assets",
  legalComments: "linked",
  metafile: true,
  write: false,
});

const assets = {};
for (const { path, contents } of built.outputFiles) {
  const name = basename(path);
  const type = TYPES[extname(name)];
  if (type === undefined) throw new Error(`${name}: build.mjs does not know what type that is`);
  await writeFile(`dist/assets/${name}`, contents);
  assets[name] = { type, bytes: contents.length, ...(await compress(name, contents)) };
}

for (const [page, entry] of Object.entries(PAGES)) {
  const { script, styles } = outputs(`src/${entry}.ts`);
  const tags = [
    ...styles.map((name) => `<link rel="stylesheet" href="/assets/${name}">`),
    `<script type="module" src="/assets/${script}"></script>`,
  ];
  const source = await readFile(`src/${page}.html`, "utf8");
  if (!source.includes("<!-- built -->")) throw new Error(`src/${page}.html lacks <!-- built -->`);
  await writeFile(`dist/${page}.html`, source.replace("<!-- built -->", tags.join("\n")));
}
await writeFile("dist/manifest.json", JSON.stringify({ assets }, null, 1) + "\n");

function outputs(entryPoint) {
  for (const [path, output] of Object.entries(built.metafile.outputs)) {
    if (output.entryPoint === entryPoint) {
      const styles = output.cssBundle === undefined ? [] : [basename(output.cssBundle)];
      return { script: basename(path), styles };
    }
  }
  throw new Error(`nothing was built from ${entryPoint}`);
}

/** Writes what is smaller than the file itself, and says how large it is. */
async function compress(name, contents) {
  const sizes = {};
  const made = {
    br: await brotli(contents, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: contents.length } }),
    gz: await gzipped(contents, { level: 9 }),
  };
  for (const [suffix, data] of Object.entries(made)) {
    if (data.length < contents.length) {
      await writeFile(`dist/assets/${name}.${suffix}`, data);
      sizes[suffix] = data.length;
    }
  }
  return sizes;
}
