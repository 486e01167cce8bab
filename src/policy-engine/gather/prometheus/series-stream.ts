// Reads the answer to a query series by series while it arrives: an answer of 100,000 series is never in memory whole, and the event loop
// has its turn after each part. Source of the wire format: prometheus.io/docs/prometheus/latest/querying/api.
import { formatBytes, MIB } from "../../../contracts/quantities/quantity.ts";

/** A series' labels and samples as JSON has them; nothing of it is checked. */
export type RawSeries = Readonly<Record<string, unknown>>;

export interface AnswerText {
  /** What stands around the series: {"status":"success","data":{"resultType":"matrix","result":[]}}, or what another server has sent. */
  readonly envelope: string;
  readonly seriesCount: number;
}

/** A week of hours of one claim takes about 6 KB. */
const SERIES_BYTES_MAX = MIB;
const ENVELOPE_BYTES_MAX = 64 * 1024;
/** {"status": …, "data": {"result": [ … ]}}: what stands in this array is a series. */
const RESULT_DEPTH = 3;

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET] = [0x7b, 0x7d, 0x5b, 0x5d];

/**
 * `take` gets each series once, in the order of the answer. Rejects when the body ends with an error, has more than `bytesMax` bytes, or
 * has a series that is not JSON; series have been taken by then: who takes them drops them.
 */
export async function readSeries(
  body: AsyncIterable<Uint8Array>,
  bytesMax: number,
  take: (series: RawSeries) => void,
): Promise<AnswerText> {
  const scanner = new SeriesScanner();
  let bytes = 0;
  let seriesCount = 0;
  for await (const part of body) {
    bytes += part.byteLength;
    if (bytes > bytesMax) throw new Error(`it has more than ${formatBytes(bytesMax)}`);
    for (const series of scanner.scan(part)) {
      seriesCount += 1;
      take(series);
    }
  }
  return { envelope: scanner.envelope(), seriesCount };
}

/** Of one answer, part by part. */
export class SeriesScanner {
  /** The bytes of a series that has not ended. */
  #open: Buffer = Buffer.alloc(0);
  #envelope: Buffer[] = [];
  #envelopeBytes = 0;
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  /** Between two series stands a comma, which the envelope does not have. */
  #isSeparated = true;

  /** The series that end in this part. */
  scan(part: Uint8Array): RawSeries[] {
    const bytes = Buffer.concat([this.#open, part]);
    let depth = this.#depth;
    let openFrom = this.#open.length > 0 ? 0 : undefined;
    let outsideFrom = 0;
    let firstFrom: number | undefined;
    let lastEnd = 0;
    for (let at = this.#endOfString(bytes, this.#open.length); at < bytes.length; at += 1) {
      const byte = bytes[at];
      if (byte === QUOTE) {
        this.#isInString = true;
        at = this.#endOfString(bytes, at + 1) - 1;
      } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        if (depth === RESULT_DEPTH && byte === OPEN_BRACE) {
          this.#beginSeries(bytes.subarray(outsideFrom, at));
          openFrom = at;
        }
        depth += 1;
      } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
        depth -= 1;
        if (depth === RESULT_DEPTH && openFrom !== undefined) {
          firstFrom ??= openFrom;
          [openFrom, lastEnd, outsideFrom] = [undefined, at + 1, at + 1];
        }
      } else if (byte === COMMA && depth === RESULT_DEPTH && !this.#isSeparated) {
        [outsideFrom, this.#isSeparated] = [at + 1, true];
      }
    }
    this.#depth = depth;
    if (openFrom === undefined) this.#keep(bytes.subarray(outsideFrom));
    this.#setOpen(openFrom === undefined ? undefined : bytes.subarray(openFrom));
    if (firstFrom === undefined) return [];
    return JSON.parse(`[${bytes.toString("utf8", firstFrom, lastEnd)}]`) as RawSeries[];
  }

  envelope(): string {
    return Buffer.concat([...this.#envelope, this.#open]).toString("utf8");
  }

  #beginSeries(before: Buffer): void {
    if (!this.#isSeparated) throw new SyntaxError("two of its series are not separated");
    this.#isSeparated = false;
    this.#keep(before);
  }

  /** The place after the string that goes on at `from`; `from` where none does. */
  #endOfString(bytes: Buffer, from: number): number {
    let at = from;
    for (; this.#isInString && at < bytes.length; at += 1) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (bytes[at] === BACKSLASH) this.#isEscaped = true;
      else if (bytes[at] === QUOTE) this.#isInString = false;
    }
    return at;
  }

  #setOpen(series: Buffer | undefined): void {
    // A copy: what the socket has read is not held on to.
    this.#open = series === undefined ? Buffer.alloc(0) : Buffer.from(series);
    if (this.#open.length > SERIES_BYTES_MAX)
      throw new Error(`one of its series has more than ${formatBytes(SERIES_BYTES_MAX)}`);
  }

  #keep(outside: Buffer): void {
    const copy = Buffer.from(outside.subarray(0, ENVELOPE_BYTES_MAX - this.#envelopeBytes));
    if (copy.length === 0) return;
    this.#envelope.push(copy);
    this.#envelopeBytes += copy.length;
  }
}
