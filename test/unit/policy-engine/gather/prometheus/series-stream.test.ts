// An answer of Prometheus read in parts, cut anywhere.
import { describe, expect, it } from "@jest/globals";
import { MIB } from "../../../../../src/contracts/quantities/quantity.ts";
import {
  type AnswerText,
  type RawSeries,
  readSeries,
} from "../../../../../src/policy-engine/gather/prometheus/series-stream.ts";

/** With all that could be taken for the end of a series. */
const SERIES = [
  { metric: { namespace: "a", persistentvolumeclaim: 'quo"te' }, values: [[1.5, "1"]] },
  { metric: { namespace: "}],{[", persistentvolumeclaim: "back\\slash\\" }, values: [[2, "NaN"]] },
  { metric: { namespace: "größe", persistentvolumeclaim: "容量" }, values: [] },
];
const ENVELOPE = { status: "success", data: { resultType: "matrix", result: [] } };

async function read(
  parts: Iterable<string | Uint8Array>,
  bytesMax: number = MIB,
): Promise<AnswerText & { readonly series: RawSeries[] }> {
  async function* body(): AsyncGenerator<Uint8Array> {
    for (const part of parts) yield Buffer.from(part);
  }
  const series: RawSeries[] = [];
  return { ...(await readSeries(body(), bytesMax, (one) => series.push(one))), series };
}

describe("an answer that is read in parts", () => {
  const text = Buffer.from(JSON.stringify({ ...ENVELOPE, data: { ...ENVELOPE.data, result: SERIES } }));

  it("is the same wherever it is cut", async () => {
    for (let cut = 0; cut <= text.length; cut += 1) {
      const { series, envelope } = await read([text.subarray(0, cut), text.subarray(cut)]);
      expect(series).toEqual(SERIES);
      expect(JSON.parse(envelope)).toEqual(ENVELOPE);
    }
  });

  it("is the same byte by byte, and as people write JSON", async () => {
    const spaced = Buffer.from(JSON.stringify(JSON.parse(text.toString()), undefined, 2));
    const { series, envelope } = await read([...spaced].map((byte) => Uint8Array.of(byte)));
    expect(series).toEqual(SERIES);
    expect(JSON.parse(envelope)).toEqual(ENVELOPE);
  });

  it("has what stands after its series", async () => {
    const { envelope } = await read(['{"data":{"result":[{"metric":{}},{"metric":{}}]},"warnings":["late"]}']);
    expect(JSON.parse(envelope)).toEqual({ data: { result: [] }, warnings: ["late"] });
  });

  it.each([
    ['{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}'],
    ['{"status":"error","error":"a {[ of something"}'],
    ["<h1>Bad Gateway</h1>"],
    [""],
  ])("%s has no series and stays as it is", async (other) => {
    expect(await read([other])).toMatchObject({ envelope: other, series: [] });
  });

  it("of half a series has all of the text that came, which is no JSON", async () => {
    const { envelope } = await read([text.subarray(0, text.length - 20)]);
    expect(() => void JSON.parse(envelope)).toThrow();
  });

  it.each<[string, string[], RegExp]>([
    ["is longer than it may be", Array.from({ length: 17 }, () => " ".repeat(65_536)), /more than 1Mi/],
    ["has a series that never ends", ['{"data":{"result":[{"metric":"', "x".repeat(MIB)], /more than 1Mi/],
    ["has a series that is not JSON", ['{"data":{"result":[{"metric":}]}}'], /JSON/],
  ])("ends with an error where it %s", async (_what, parts, message) => {
    await expect(read(parts, parts.length > 2 ? MIB : 8 * MIB)).rejects.toThrow(message);
  });

  it("holds no more than the start of what is no answer", async () => {
    const { envelope } = await read(Array.from({ length: 100 }, () => "x".repeat(10_000)));
    expect(envelope.length).toBe(65_536);
  });
});
