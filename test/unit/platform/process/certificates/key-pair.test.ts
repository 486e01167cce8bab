import { describe, expect, it } from "@jest/globals";
import type { Secret } from "../../../../../src/contracts/kubernetes/resources.ts";
import { hasPair } from "../../../../../src/platform/process/certificates/key-pair.ts";
import { showSecret } from "../../../../../src/platform/process/certificates/shown-pair.ts";
import { createRecordingLog } from "../../../../fakes/recording-log.ts";

const secretOf = (data?: Record<string, string>): Secret => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { namespace: "tidemark-system", name: "tidemark-extender-tls" },
  ...(data === undefined ? {} : { data }),
});

describe("a Secret as the manifests have it, empty", () => {
  const empty: readonly (readonly [Record<string, string> | undefined])[] = [
    [undefined],
    [{}],
    [{ "tls.crt": "" }],
    [{ other: "x" }],
  ];
  it.each(empty)("is no certificate, and is shown to nobody: %p", (data) => {
    const { log, lines } = createRecordingLog();
    expect(hasPair(secretOf(data))).toBe(false);
    const replace = (): void => {
      throw new Error("it was shown");
    };
    expect(showSecret(secretOf(data), replace, log)).toBe(false);
    expect(lines).toEqual([]);
  });

  it("is one once something stands in it, usable or not", () => {
    expect(hasPair(secretOf({ "tls.crt": "eA==" }))).toBe(true);
  });
});
