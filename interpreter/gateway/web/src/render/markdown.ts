// Markdown with formulas, as HTML for the frame. Formulas become MathML, which browsers draw themselves.

import katex from "katex";
import MarkdownIt from "markdown-it";

const converter = new MarkdownIt({ html: true, linkify: true });
const FORMULA = /\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\]|\\\(([\s\S]+?)\\\)|(?<![\\$\w])\$(?!\s)((?:[^$\\\n]|\\.)+?)(?<!\s)\$(?![\w$])/g;
const CODE = /(```[\s\S]*?(?:```|$)|~~~[\s\S]*?(?:~~~|$)|`[^`\n]*`)/;

export function markdown(text: string): string {
  const formulas: string[] = [];
  // Formulas are taken out first, so that their signs are not taken for Markdown's; code is left alone.
  const prepared = text
    .split(CODE)
    .map((part, at) =>
      at % 2
        ? part
        : part.replace(FORMULA, (_, a?: string, b?: string, c?: string, d?: string) => {
            formulas.push(mathml(a ?? b ?? c ?? d ?? "", a !== undefined || b !== undefined));
            return `\u0002${formulas.length - 1}\u0003`;
          }),
    )
    .join("");
  return converter.render(prepared).replace(/\u0002(\d+)\u0003/g, (_, at: string) => formulas[Number(at)] ?? "");
}

export function formula(text: string): string {
  const inner = text.trim();
  const block = /^\$\$([\s\S]*)\$\$$/.exec(inner) ?? /^\\\[([\s\S]*)\\\]$/.exec(inner);
  if (block) return mathml(block[1]!, true);
  const line = /^\$([^$]*)\$$/.exec(inner);
  if (line) return mathml(`\\displaystyle ${line[1]!}`, false);
  return inner.includes("$") ? markdown(inner) : mathml(inner, true);
}

function mathml(source: string, block: boolean): string {
  return katex.renderToString(source, { output: "mathml", displayMode: block, throwOnError: false, maxExpand: 1000 });
}
