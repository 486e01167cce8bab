// The live view on a terminal: redraws frames on the alternate screen, follows its size, and gives the terminal back as it was.
import type { WriteStream } from "node:tty";
import type { DemoView, Scene } from "../script/scene.ts";
import { type Paint, renderFrame, type Style } from "./frame.ts";

const ENTER = "\x1b[?1049h\x1b[?25l"; // alternate screen, cursor hidden
const LEAVE = "\x1b[?25h\x1b[?1049l";
const HOME = "\x1b[H";
const CLEAR_LINE = "\x1b[K";
const CLEAR_BELOW = "\x1b[J";
/** Redrawn at most this often: the terminal must not take the writers' processor. */
const FRAME_INTERVAL_MS = 100;

const COLORS: Readonly<Record<Style, string>> = {
  empty: "",
  used: "34",
  size: "1;32",
  fixed: "31",
  full: "1;31",
  act: "1",
  extend: "32",
  shrink: "36",
  hold: "2",
  fault: "33",
  note: "",
  title: "1",
  faint: "2",
};

/** Colours by ANSI's sixteen, which every theme has made readable. */
export const ansiPaint: Paint = (style, text) =>
  COLORS[style] === "" || text === "" ? text : `\x1b[${COLORS[style]}m${text}\x1b[0m`;

export function createTerminalView(terminal: WriteStream): DemoView {
  let latest: Scene | undefined;
  let drawnAtMs = Number.NEGATIVE_INFINITY;
  let open = true;
  const draw = (): void => {
    if (latest === undefined || !open) return;
    drawnAtMs = performance.now();
    const lines = renderFrame(latest, { columns: terminal.columns, rows: terminal.rows }, ansiPaint);
    terminal.write(HOME + lines.map((line) => line + CLEAR_LINE).join("\r\n") + CLEAR_BELOW);
  };
  const close = (): void => {
    if (!open) return;
    open = false;
    terminal.off("resize", draw);
    process.off("exit", close);
    terminal.write(LEAVE);
  };
  terminal.on("resize", draw);
  process.on("exit", close);
  terminal.write(ENTER);
  return {
    update: (scene) => {
      latest = scene;
      if (performance.now() - drawnAtMs >= FRAME_INTERVAL_MS) draw();
    },
    close,
  };
}
