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
    [["--samples-address", "9470"], /not HOST:PORT/],
    [["--samples-tls", "SelfMade"], /needs a --samples-address/],
    [["--samples-tls", "On", "--samples-address", "0.0.0.0:1"], /not one of Off, SelfMade/],
  ])("%j is refused with a sentence", (args, message) => {
    expect(() => readConfig(args, {})).toThrow(message);
  });
});

describe("the Prometheus that is asked", () => {
  it("is none where none is given", () => {
    expect(readConfig([], {}).prometheus).toBeUndefined();
  });

  it("is an address, with what it wants to see of who asks", () => {
    const args = [
      ...["--prometheus", "https://thanos.monitoring:9090/team-a/", "--prometheus-token-file", "/token"],
      ...["--prometheus-ca-file", "/ca.crt", "--prometheus-header", "X-Scope-OrgID=a=b", "--prometheus-header", "X-B="],
    ];
    expect(readConfig(args, {}).prometheus).toMatchObject({
      url: "https://thanos.monitoring:9090/team-a",
      tokenFile: "/token",
      caFile: "/ca.crt",
      headers: { "X-Scope-OrgID": "a=b", "X-B": "" },
    });
  });

  const HTTPS = ["--prometheus", "https://a"];
  it.each([
    [["--prometheus", "prometheus:9090"], /not an address such as http:/],
    [["--prometheus", "https://u:secret@a"], /give --prometheus-user and --prometheus-password-file/],
    [["--prometheus", "https://a?x=1"], /more than a path/],
    [["--prometheus-token-file", "/t"], /needs a --prometheus/],
    [["--prometheus", "http://a", "--prometheus-token-file", "/t"], /to an https address only/],
    [["--prometheus", "http://a", "--prometheus-ca-file", "/c"], /for an https address/],
    [[...HTTPS, "--prometheus-user", "u"], /give both/],
    [[...HTTPS, "--prometheus-certificate-file", "/c"], /give both/],
    [
      [...HTTPS, "--prometheus-user", "u", "--prometheus-password-file", "/p", "--prometheus-token-file", "/t"],
      /one of them/,
    ],
    [[...HTTPS, "--prometheus-header", "X Y=1"], /not NAME=VALUE/],
    [[...HTTPS, "--prometheus-header", "X=a\nY: b"], /not NAME=VALUE/],
    [[...HTTPS, "--prometheus-header", "Authorization=Bearer x"], /--prometheus-token-file/],
  ])("%j is refused with a sentence that shows no secret", (args, message) => {
    expect(() => readConfig(args, {})).toThrow(message);
    expect(() => readConfig(args, {})).not.toThrow(/secret/);
  });
});
