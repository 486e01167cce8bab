// Kubernetes quantities as bytes: parsing what the API carries, and writing sizes the way `kubectl get pvc` shows them.
// Grammar: k8s.io/apimachinery/pkg/api/resource (decimal and binary suffixes, exponents); the milli suffix makes no sense for sizes.

const BINARY_SUFFIXES = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] as const;
const DECIMAL_POWERS: Readonly<Record<string, number>> = { "": 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const PATTERN = /^([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([KMGTPE]i)|([kMGTPE])|[eE]([+-]?\d{1,2}))?$/;

/** A quantity that cannot be read; the message names the text. */
export class QuantityError extends Error {
  override name = "QuantityError";
}

/** Bytes of a Kubernetes quantity ("10Gi", "500M", "1e9"), rounded up to a whole byte. Throws QuantityError. */
export function parseQuantity(text: string): number {
  const match = PATTERN.exec(text);
  if (match === null) throw new QuantityError(`"${text}" is not a quantity such as 500Mi, 10Gi or 1500000000`);
  const [, digits = "0", binary, decimal, exponent] = match;
  const bytes = Number(digits) * multiplier(binary, decimal, exponent);
  const whole = Math.ceil(bytes);
  if (!Number.isSafeInteger(whole))
    throw new QuantityError(`"${text}" is more than 8Pi, the largest size Tidemark handles`);
  if (whole < 0) throw new QuantityError(`"${text}" is negative; a size cannot be`);
  return whole;
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

function multiplier(binary: string | undefined, decimal: string | undefined, exponent: string | undefined): number {
  if (binary !== undefined) return 1024 ** BINARY_SUFFIXES.indexOf(binary as (typeof BINARY_SUFFIXES)[number]);
  if (exponent !== undefined) return 10 ** Number(exponent);
  return 10 ** (DECIMAL_POWERS[decimal ?? ""] ?? 0);
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
