// The picture's colours and type: light, and dark where the reader's system is. Plain classes: not every renderer knows variables.

const FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

const SHAPES = `
text { font-family: ${FONT}; font-size: 13px; }
.title { font-size: 22px; font-weight: 600; }
.subtitle { font-size: 14px; }
.label { font-size: 12px; }
.dot-text { font-size: 11px; font-weight: 700; }
.full-text { font-size: 14px; font-weight: 600; }
.halo { paint-order: stroke; stroke-width: 4px; stroke-linejoin: round; }
.grid { stroke-width: 1; }
.size { fill: none; stroke-width: 2.6; stroke-linejoin: round; }
.used-line { fill: none; stroke-width: 1.4; stroke-linejoin: round; }
.fixed { stroke-width: 2; stroke-dasharray: 5 4; }
.full { fill: none; stroke-width: 3; stroke-linecap: round; }
.mark { stroke-width: 1; stroke-dasharray: 2 3; }
`;

interface Colors {
  readonly card: string;
  readonly border: string;
  readonly text: string;
  readonly faint: string;
  readonly grid: string;
  readonly used: string;
  readonly usedLine: string;
  readonly size: string;
  readonly fixed: string;
  readonly fault: string;
  readonly shrink: string;
  readonly ended: string;
  readonly dotText: string;
}

const LIGHT: Colors = {
  card: "#ffffff",
  border: "#d6dde5",
  text: "#1b2733",
  faint: "#5c6b7a",
  grid: "#e7ecf1",
  used: "#bcdcf5",
  usedLine: "#4a97d2",
  size: "#0b7a75",
  fixed: "#c8372d",
  fault: "#a85b00",
  shrink: "#6a4bc4",
  ended: "#8a6d1d",
  dotText: "#ffffff",
};

const DARK: Colors = {
  card: "#0f1720",
  border: "#2b3947",
  text: "#e6edf3",
  faint: "#9aa9b8",
  grid: "#1f2b37",
  used: "#17405f",
  usedLine: "#58a6e0",
  size: "#3fd0c2",
  fixed: "#ff7b6e",
  fault: "#f0a94a",
  shrink: "#b39cff",
  ended: "#d9bd66",
  dotText: "#0f1720",
};

function colored(colors: Colors): string {
  return `
.card { fill: ${colors.card}; stroke: ${colors.border}; }
.halo { stroke: ${colors.card}; }
text, .title, .legend { fill: ${colors.text}; }
.subtitle, .tick, .label { fill: ${colors.faint}; }
.grid { stroke: ${colors.grid}; }
.used, .used-key { fill: ${colors.used}; }
.used-line { stroke: ${colors.usedLine}; }
.size { stroke: ${colors.size}; }
.fixed, .full { stroke: ${colors.fixed}; }
.full-text { fill: ${colors.fixed}; }
.mark { stroke: ${colors.faint}; }
.mark.fault { stroke: ${colors.fault}; }
.fault-text { fill: ${colors.fault}; }
.dot.extend { fill: ${colors.size}; }
.dot.shrink { fill: ${colors.shrink}; }
.dot.ended { fill: ${colors.ended}; }
.dot-text { fill: ${colors.dotText}; }
`;
}

export const PICTURE_STYLE = `${SHAPES}${colored(LIGHT)}@media (prefers-color-scheme: dark) {${colored(DARK)}}`;
