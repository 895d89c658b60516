/** Tables that read well in a terminal and are valid Markdown. */

/** A Markdown table; the first column is text (left), the others are numbers (right). */
export function formatTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((cell, i) =>
    Math.max(3, cell.length, ...rows.map((row) => (row[i] ?? "").length))
  );
  const line = (cells: readonly string[]) =>
    `| ${widths.map((width, i) => pad(cells[i] ?? "", width, i === 0)).join(" | ")} |`;
  const rule = `|${
    widths.map((width, i) => i === 0 ? "-".repeat(width + 2) : `${"-".repeat(width + 1)}:`).join("|")
  }|`;
  return [line(header), rule, ...rows.map(line)].join("\n");
}

/** A number with so many decimals; "-" for one that was not measured. */
export function formatNumber(value: number | null | undefined, decimals = 0): string {
  return value === null || value === undefined || !Number.isFinite(value) ? "-" : value.toFixed(decimals);
}

function pad(cell: string, width: number, left: boolean): string {
  return left ? cell.padEnd(width) : cell.padStart(width);
}
