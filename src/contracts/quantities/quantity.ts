// Kubernetes quantities as bytes: parsing what the API carries, and writing sizes the way `kubectl get pvc` shows them. Grammar:
// k8s.io/apimachinery/pkg/api/resource (decimal and binary suffixes, exponents). A size with a fraction of a byte, such as 1.7Gi, is
// written as "1825361100800m".

const BINARY_SUFFIXES = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] as const;
const DECIMAL_POWERS: Readonly<Record<string, number>> = { "": 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const FRACTION_POWERS: Readonly<Record<string, number>> = { m: -3, u: -6, n: -9 };
/** With such a suffix smaller sizes are typing errors: "500m" was to be 500M. */
const FRACTIONS_FROM_BYTES = 1024;
/** Kubernetes writes none that is half as long. */
const MAX_CHARACTERS = 64;
const PATTERN = /^([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([KMGTPE]i)|([kMGTPEmun])|[eE]([+-]?\d{1,2}))?$/;

/** A quantity that cannot be read; the message names the text. */
export class QuantityError extends Error {
  override name = "QuantityError";
}

/** Bytes of a Kubernetes quantity ("10Gi", "500M", "1e9"), rounded up to a whole byte. Throws QuantityError. */
export function parseQuantity(text: string): number {
  return parsePlain(text) ?? parseAny(text);
}

const ZERO_CODE = "0".charCodeAt(0);
const NINE_CODE = "9".charCodeAt(0);
/** The digits of the largest number that is exact, and a suffix. */
const PLAIN_CHARACTERS = 18;

/** Whole bytes as Tidemark writes them, without an allocation: the agent reads them for each sample. Undefined: in any other form. */
function parsePlain(text: string): number | undefined {
  if (text.length > PLAIN_CHARACTERS) return undefined;
  let value = 0;
  let at = 0;
  for (; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < ZERO_CODE || code > NINE_CODE) break;
    value = value * 10 + code - ZERO_CODE;
  }
  const scale = at === 0 ? undefined : plainScale(text, at);
  const bytes = scale === undefined ? Number.NaN : value * scale;
  return bytes <= Number.MAX_SAFE_INTEGER ? bytes : undefined;
}

/** Of the suffix from there on. */
function plainScale(text: string, from: number): number | undefined {
  if (from === text.length) return 1;
  if (from + 2 !== text.length || !text.endsWith("i")) return undefined;
  const power = "KMGTPE".indexOf(text.charAt(from));
  return power < 0 ? undefined : 1024 ** (power + 1);
}

function parseAny(text: string): number {
  const match = text.length <= MAX_CHARACTERS ? PATTERN.exec(text) : null;
  if (match === null)
    throw new QuantityError(`"${text.slice(0, MAX_CHARACTERS)}" is not a quantity such as 500Mi, 10Gi or 1500000000`);
  const [, digits = "0", binary, decimal, exponent = "0"] = match;
  const [base, power] = multiplier(binary, decimal);
  const [whole = "", fraction = ""] = digits.split(".");
  const fractions = FRACTION_POWERS[decimal ?? ""];
  const tens = Number(exponent) - fraction.length + (fractions ?? 0);
  const bytes = scaled(BigInt(`${whole}${fraction}`) * base ** power, tens);
  if (bytes < 0n) throw new QuantityError(`"${text}" is negative; a size cannot be`);
  if (fractions !== undefined && bytes < FRACTIONS_FROM_BYTES)
    throw new QuantityError(`"${text}" is less than ${FRACTIONS_FROM_BYTES} bytes; a million bytes are 1M`);
  if (bytes > BigInt(Number.MAX_SAFE_INTEGER))
    throw new QuantityError(`"${text}" is more than 8Pi, the largest size Tidemark handles`);
  return Number(bytes);
}

/** In whole numbers: 4.3Pi as a product of two floats is a byte less than it is. Rounded away from 0. */
function scaled(value: bigint, tens: number): bigint {
  if (tens >= 0) return value * 10n ** BigInt(tens);
  const divisor = 10n ** BigInt(-tens);
  return value < 0n ? -((-value + divisor - 1n) / divisor) : (value + divisor - 1n) / divisor;
}

/** The same; undefined where there is none, or one that cannot be read. */
export function readQuantity(text: string | undefined): number | undefined {
  try {
    return text === undefined ? undefined : parseQuantity(text);
  } catch (error) {
    if (error instanceof QuantityError) return undefined;
    throw error;
  }
}

function multiplier(binary: string | undefined, decimal: string | undefined): [base: bigint, power: bigint] {
  const power = BINARY_SUFFIXES.findIndex((suffix) => suffix === binary);
  return power > 0 ? [1024n, BigInt(power)] : [10n, BigInt(DECIMAL_POWERS[decimal ?? ""] ?? 0)];
}

/** The canonical quantity of whole bytes: the largest binary suffix that divides it, else plain bytes. */
export function formatQuantity(bytes: number): string {
  let value = bytes;
  let power = 0;
  while (value !== 0 && value % 1024 === 0 && power < BINARY_SUFFIXES.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${value}${BINARY_SUFFIXES[power] ?? ""}`;
}

/** Bytes for people, three digits, with the suffixes of Kubernetes' quantities: "1.50Gi", "256Mi", "-3 B". Never parsed again. */
export function formatBytes(bytes: number): string {
  const magnitude = Math.abs(bytes);
  const power = magnitude < 1 ? 0 : Math.min(Math.floor(Math.log2(magnitude) / 10), BINARY_SUFFIXES.length - 1);
  const scaled = bytes / 1024 ** power;
  const digits =
    power === 0 || Math.abs(scaled) >= 100 || Number.isInteger(scaled) ? 0 : Math.abs(scaled) >= 10 ? 1 : 2;
  return `${scaled.toFixed(digits)}${power === 0 ? " B" : BINARY_SUFFIXES[power]}`;
}

export const MIB = 1024 ** 2;
export const GIB = 1024 ** 3;

/** Rounded up to what every CSI driver makes exactly as it is asked for. */
export function wholeGiB(bytes: number): number {
  return Math.ceil(bytes / GIB) * GIB;
}
