/**
 * House rules that a linter can see. Registered in `deno.json`; tested in `tests/tools/lint_plugin_test.ts`.
 *
 * | rule | |
 * |---|---|
 * | `error-message` | capital first, no full stop, no contraction |
 * | `layers` | imports point downwards only |
 * | `no-enum` | a frozen constant object with a derived union instead |
 * | `top-level-functions` | declarations, not arrows |
 */

/** Layers of the product from the bottom up. Those in one row may not see each other. */
const LAYERS: readonly (readonly string[])[] = [
  ["src/errors.ts", "src/clock.ts", "src/bytes.ts", "src/outcome.ts"],
  ["src/observe/"],
  ["transports/"],
  ["src/messenger/"],
  ["src/stream.ts"],
  ["src/mux/"],
  ["src/plane/"],
  ["src/routing/"],
  ["src/frontend/", "src/worker/"],
  ["src/config/"],
  ["src/modes/"],
  ["main.ts"],
];
/** From a layer to a lower one: types only. */
const TYPES_ONLY: Readonly<Record<string, readonly string[]>> = {
  "src/mux/": ["src/messenger/", "transports/"],
};
/** Each folder in `transports/` is a transport of its own; only a mode picks one. */
const TRANSPORT_FOLDER = /^transports\/([^/]+)\//;

const ERROR_CLASSES: Readonly<Record<string, number>> = {
  Error: 0,
  TypeError: 0,
  RangeError: 0,
  SyntaxError: 0,
  TokenplaneError: 1,
};
const CONTRACTION = /n't\b|\b(?:it|that|there|what|who|let|he|she)'s\b|'(?:re|ve|ll|m)\b/i;

const root = new URL("../", import.meta.url).pathname;

/** What is wrong with an error message's text, or null. `text` may have holes where expressions stand (U+FFFC). */
export function messageFault(text: string): string | null {
  if (/^[a-z]/.test(text)) return "must start with a capital";
  if (/\.$/.test(text)) return "must not end with a full stop";
  if (CONTRACTION.test(text)) return "must not contain a contraction";
  return null;
}

/** Why one file of the product may not import another, or null. Paths are relative to the repository. */
export function importFault(from: string, to: string, isTypeOnly: boolean): string | null {
  const importer = findLayer(from);
  const imported = findLayer(to);
  if (importer === null) return null;
  // Tests, benchmarks and tools stand beside the product: they see all of it, and it sees none of them.
  if (imported === null) return to.endsWith(".ts") ? `"${to}" has no place in the table of layers` : null;
  const fromTransport = TRANSPORT_FOLDER.exec(from)?.[1];
  const toTransport = TRANSPORT_FOLDER.exec(to)?.[1];
  if (toTransport !== undefined && toTransport !== fromTransport && importer.name !== "src/modes/") {
    return `only "src/modes/" may pick a transport, and no transport may use another`;
  }
  if (importer.name === imported.name) return null;
  if (importer.rank === imported.rank) {
    return `"${importer.name}" and "${imported.name}" may not see each other`;
  }
  if (importer.rank < imported.rank) return `"${importer.name}" is below "${imported.name}"`;
  if (!isTypeOnly && TYPES_ONLY[importer.name]?.includes(imported.name)) {
    return `"${importer.name}" may import types only from "${imported.name}"`;
  }
  return null;
}

function findLayer(path: string): { name: string; rank: number } | null {
  for (const [rank, names] of LAYERS.entries()) {
    for (const name of names) {
      if (path === name || (name.endsWith("/") && path.startsWith(name))) return { name, rank };
    }
  }
  return null;
}

function isProduct(path: string): boolean {
  return path === "main.ts" || /^(?:src|transports|tools)\//.test(path);
}

function relative(filename: string): string {
  return filename.startsWith(root) ? filename.slice(root.length) : filename;
}

/** The text of a message with U+FFFC for each expression in it; null when nothing of it is known. */
function messageText(node: Deno.lint.Node | undefined): string | null {
  if (node === undefined) return null;
  if (node.type === "Literal") return typeof node.value === "string" ? node.value : null;
  if (node.type === "TemplateLiteral") return node.quasis.map((quasi) => quasi.cooked).join("\uFFFC");
  if (node.type === "BinaryExpression" && node.operator === "+") {
    const [left, right] = [messageText(node.left), messageText(node.right)];
    return left === null && right === null ? null : `${left ?? "\uFFFC"}${right ?? "\uFFFC"}`;
  }
  return null;
}

const plugin: Deno.lint.Plugin = {
  name: "tokenplane",
  rules: {
    "error-message": {
      create(context) {
        if (!isProduct(relative(context.filename))) return {};
        return {
          NewExpression(node) {
            if (node.callee.type !== "Identifier") return;
            const position = ERROR_CLASSES[node.callee.name];
            const text = position === undefined ? null : messageText(node.arguments[position]);
            const fault = text === null ? null : messageFault(text);
            if (fault !== null) context.report({ node, message: `An error message ${fault}` });
          },
        };
      },
    },
    "layers": {
      create(context) {
        const from = relative(context.filename);
        const check = (node: Deno.lint.Node, source: string, isTypeOnly: boolean) => {
          if (!source.startsWith(".")) return;
          const to = relative(new URL(source, new URL(`file://${context.filename}`)).pathname);
          const fault = importFault(from, to, isTypeOnly);
          if (fault !== null) context.report({ node, message: `Imports point downwards only: ${fault}` });
        };
        return {
          ImportDeclaration: (node) => {
            // With verbatim-module-syntax an import of types alone says so, on the whole or on each name.
            const names = node.specifiers;
            const isTypeOnly = node.importKind === "type" || (names.length > 0 &&
              names.every((one) => one.type === "ImportSpecifier" && one.importKind === "type"));
            check(node, node.source.value, isTypeOnly);
          },
          ExportNamedDeclaration: (node) => {
            if (node.source) check(node, node.source.value, node.exportKind === "type");
          },
          ExportAllDeclaration: (node) => check(node, node.source.value, node.exportKind === "type"),
        };
      },
    },
    "no-enum": {
      create: (context) => ({
        TSEnumDeclaration: (node) =>
          context.report({ node, message: "Use a frozen constant object with a derived union, not an enum" }),
      }),
    },
    "top-level-functions": {
      create(context) {
        if (!isProduct(relative(context.filename))) return {};
        const check = (node: Deno.lint.Node) => {
          if (node.type !== "VariableDeclaration") return;
          for (const declared of node.declarations) {
            if (declared.init?.type !== "ArrowFunctionExpression") continue;
            context.report({ node: declared, message: "Declare a top-level function, not a constant arrow" });
          }
        };
        return {
          Program(program) {
            for (const node of program.body) {
              check(node);
              if (node.type === "ExportNamedDeclaration" && node.declaration) check(node.declaration);
            }
          },
        };
      },
    },
  },
};

export default plugin;
