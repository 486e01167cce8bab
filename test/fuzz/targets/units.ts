// Quantities, durations, percentages and times at which a window opens: against a second reading in whole numbers.
import assert from "node:assert/strict";
import { parseDuration } from "../../../src/contracts/quantities/duration.ts";
import { parseQuantity } from "../../../src/contracts/quantities/quantity.ts";
import { parsePercent } from "../../../src/contracts/quantities/ratio.ts";
import { createMaintenanceWindow } from "../../../src/policy-engine/policies/maintenance-window.ts";
import { textMutator } from "../mutate.ts";
import { type FuzzTarget, pure } from "../target.ts";

const POWERS: Readonly<Record<string, readonly [base: bigint, power: bigint]>> = {
  "": [10n, 0n],
  ...Object.fromEntries([..."kMGTPE"].map((letter, index) => [letter, [10n, BigInt(index + 1) * 3n]])),
  ...Object.fromEntries([..."mun"].map((letter, index) => [letter, [10n, BigInt(index + 1) * -3n]])),
  ...Object.fromEntries([..."KMGTPE"].map((letter, index) => [`${letter}i`, [1024n, BigInt(index + 1)]])),
};

/** As k8s.io/apimachinery reads it, rounded up to a whole byte. */
function exactBytes(text: string): bigint {
  const [, sign, whole = "", fraction = "", suffix = ""] = /^([+-]?)(\d*)(?:\.(\d*))?(.*)$/s.exec(text) ?? [];
  const exponent = /^[eE]([+-]?\d+)$/.exec(suffix)?.[1];
  const [base, power] = exponent === undefined ? (POWERS[suffix] ?? assert.fail(`suffix "${suffix}"`)) : [10n, 0n];
  const tens = BigInt(exponent ?? 0) - BigInt(fraction.length) + (power < 0n ? power : 0n);
  const scaled = BigInt(`${whole}${fraction}`) * base ** (power < 0n ? 0n : power) * (tens > 0n ? 10n ** tens : 1n);
  const divisor = tens < 0n ? 10n ** -tens : 1n;
  const magnitude = sign === "-" ? -(scaled / divisor) : (scaled + divisor - 1n) / divisor;
  return magnitude;
}

const quantities: FuzzTarget = {
  name: "quantities",
  parsers: ["src/contracts/quantities/quantity.ts"],
  seeds: () => [
    ...[
      "10Gi",
      "500M",
      "1e9",
      "0.5Gi",
      "1.5k",
      "+1.",
      ".5Mi",
      "1E3",
      "1E",
      "100m",
      "1825361100800m",
      "-1",
      "8Pi",
      "4.35k",
      "1e-3",
    ],
    // Once read as a byte less, as -0, and after seconds.
    ...["4.3Pi", "-0.5", "9".repeat(60_000)],
  ],
  mutate: textMutator([
    "Ki",
    "Mi",
    "Gi",
    "Ti",
    "Pi",
    "Ei",
    "k",
    "M",
    "G",
    "E",
    "m",
    "u",
    "n",
    "e",
    "e-9",
    "e15",
    ".",
    "+",
    "-",
    "001",
  ]),
  refusals: ["QuantityError"],
  start: pure((input) => {
    const text = input.toString("utf8");
    assert.equal(BigInt(parseQuantity(text)), exactBytes(text), `it is another number of bytes`);
  }),
};

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1e3, m: 6e4, h: 36e5, d: 864e5 };

const durations: FuzzTarget = {
  name: "durations",
  parsers: ["src/contracts/quantities/duration.ts"],
  // The last were once accepted as more than there is.
  seeds: () => ["0s", "1h30m", "250ms", "7d", "1.5h", "10m5s", "254740993d", `${"9".repeat(400)}h`],
  mutate: textMutator(["ms", "s", "m", "h", "d", ".", "1m1s", "00"]),
  refusals: ["DurationError"],
  start: pure((input) => {
    const text = input.toString("utf8");
    const parts = text.split(/(?<=[a-z])(?=\d)/).map((part) => /^([\d.]+)([a-z]+)$/.exec(part));
    const parsedMs = parseDuration(text);
    const sumMs = parts.reduce((sum, part) => sum + Number(part?.[1]) * (UNITS_MS[part?.[2] ?? ""] ?? Number.NaN), 0);
    assert.ok(parsedMs <= Number.MAX_SAFE_INTEGER, `${parsedMs} ms are no duration`);
    assert.ok(Math.abs(parsedMs - sumMs) <= sumMs * 1e-9, `it reads ${parsedMs} ms, not ${sumMs}`);
  }),
};

const percentages: FuzzTarget = {
  name: "percentages",
  parsers: ["src/contracts/quantities/ratio.ts"],
  // The last was once infinite.
  seeds: () => ["60%", "0.5%", "100%", "250%", `${"9".repeat(310)}%`],
  mutate: textMutator(["%", ".", "0", "1"]),
  refusals: ["PercentError"],
  start: pure((input) => {
    const text = input.toString("utf8");
    const ratio = parsePercent(text);
    assert.ok(Number.isFinite(ratio) && ratio >= 0, `${ratio} is no ratio`);
    assert.equal(ratio, Number(text.slice(0, -1)) / 100);
  }),
};

const HOUR_MS = 3_600_000;

const windows: FuzzTarget = {
  name: "maintenance windows",
  parsers: ["src/policy-engine/policies/maintenance-window.ts"],
  seeds: () => [
    "0 2 * * *|Europe/Berlin",
    "*/15 1-5 * * 1-5|UTC",
    "30 3 29 2 *|",
    "0 0 1 JAN,jul MON|America/New_York",
  ],
  mutate: textMutator([
    "*",
    "/",
    "-",
    ",",
    " ",
    "|",
    "L",
    "W",
    "#",
    "?",
    "@daily",
    "29 2",
    "31 2",
    "MON",
    "FEB",
    "UTC",
    "Asia/Tokyo",
    "+02:00",
  ]),
  refusals: ["MaintenanceWindowError"],
  start: pure((input) => {
    const [cron = "", zone] = input.toString("utf8").split("|");
    const window = createMaintenanceWindow(cron, HOUR_MS, zone || undefined);
    const nowMs = Date.UTC(2026, 2, 29, 0, 59);
    const nextMs = window.nextOpenMs(nowMs);
    assert.ok(nextMs !== undefined && nextMs > nowMs, `it opens at ${nextMs}, which is not after ${nowMs}`);
    assert.ok(window.isOpen(nextMs) && window.closesMs(nextMs) !== undefined, "it is shut when it opens");
  }),
  cost: 4,
};

export const UNIT_TARGETS: readonly FuzzTarget[] = [quantities, durations, percentages, windows];
