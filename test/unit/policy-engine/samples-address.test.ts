import { describe, expect, it } from "@jest/globals";
import { readConfig } from "../../../src/policy-engine/config.ts";

describe("where the policy-engine listens for samples", () => {
  it("is a unix socket where nothing is said", () => {
    expect(readConfig([], {})).toMatchObject({
      samplesSocket: "/run/tidemark/policy-engine.sock",
      samplesAddress: undefined,
      samplesTls: "Off",
    });
  });

  it.each([
    [["--samples-address", "127.0.0.1:9470"], { host: "127.0.0.1", port: 9470 }, "Off"],
    [["--samples-address", "0.0.0.0:9470", "--samples-tls", "SelfMade"], { host: "0.0.0.0", port: 9470 }, "SelfMade"],
  ])("%j is an address on loopback, or one with TLS", (args, samplesAddress, samplesTls) => {
    expect(readConfig(args, {})).toMatchObject({ samplesAddress, samplesTls });
  });

  it.each([
    [["--samples-address", "0.0.0.0:9470"], /reached from outside this machine.*--samples-tls SelfMade/],
    [["--samples-address", "[::]:9470"], /reached from outside this machine/],
    [["--samples-address", "engine.example:9470"], /reached from outside this machine/],
    [["--samples-address", "9470"], /no host:port/],
    [["--samples-tls", "SelfMade"], /needs a --samples-address/],
    [["--samples-tls", "On", "--samples-address", "0.0.0.0:1"], /none of Off, SelfMade/],
  ])("%j is refused with a sentence", (args, message) => {
    expect(() => readConfig(args, {})).toThrow(message);
  });
});
