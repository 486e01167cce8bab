// Writing SVG by hand: elements as text, with what must be escaped escaped. Pure.

export type Attributes = Readonly<Record<string, string | number>>;

/** One element; `children` are elements already. */
export function element(name: string, attributes: Attributes, ...children: readonly string[]): string {
  const written = Object.entries(attributes)
    .map(([key, value]) => ` ${key}="${escapeXml(typeof value === "number" ? short(value) : value)}"`)
    .join("");
  return children.length === 0 ? `<${name}${written}/>` : `<${name}${written}>${children.join("")}</${name}>`;
}

export function textElement(attributes: Attributes, text: string): string {
  return element("text", attributes, escapeXml(text));
}

/** "M0 0L1 1…" through the points. */
export function linePath(points: readonly (readonly [number, number])[]): string {
  return points.map(([x, y], index) => `${index === 0 ? "M" : "L"}${short(x)} ${short(y)}`).join("");
}

function short(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}
