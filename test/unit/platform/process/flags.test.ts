import { describe, expect, it } from "@jest/globals";
import {
  durationFlag,
  HelpAsked,
  oneOfFlag,
  portFlag,
  readFlags,
  readProcessSettings,
} from "../../../../src/platform/process/flags.ts";

const flags = { "http-host": "127.0.0.1", "http-port": "9464", "log-level": "warn" };

describe("what every process is told", () => {
  it("is read from flags, and faults from the environment", () => {
    const environment = { TIDEMARK_FAULT: "extend/grow-file/before", TIDEMARK_EFFECT_LOG: "/run/effects" };
    expect(readProcessSettings(flags, environment)).toEqual({
      httpHost: "127.0.0.1",
      httpPort: 9464,
      logLevel: "warn",
      faults: [{ point: "extend/grow-file", moment: "before", passage: 1 }],
      effectLog: "/run/effects",
    });
  });

  it("plants no fault that nobody asked for", () => {
    expect(readProcessSettings(flags, {})).toMatchObject({ faults: [], effectLog: undefined });
  });
});

describe("a flag that a process does not have", () => {
  const known = { server: { type: "string" }, "http-port": { type: "string", default: "9464" } } as const;

  it("is refused with those that it has, and their defaults", () => {
    expect(() => readFlags(known, ["--sever", "a"])).toThrow(
      "Unknown option '--sever'; the flags are: --server, --http-port (9464)",
    );
  });

  it("is no reason to lose the others", () => {
    expect(readFlags(known, ["--server", "a"])).toMatchObject({ server: "a", "http-port": "9464" });
  });
});

it("tells its flags and their defaults to who asks for help, whatever else was said", () => {
  const known = { server: { type: "string" }, keep: { type: "boolean", default: false } } as const;
  expect(() => readFlags(known, ["--sever", "--help"])).toThrow(new HelpAsked("  --server\n  --keep (false)\n"));
});

describe("a flag that cannot be read is refused by its name", () => {
  it.each(["x", "", "-1", "1.5", "65536", "0x10", "1e3"])("as a port: %j", (text) => {
    expect(() => portFlag("http-port", text)).toThrow(`--http-port ${text} is not a port between 0 and 65535`);
  });

  it("as one of several words", () => {
    expect(() => oneOfFlag("storage", "cloud", ["real", "simulated"])).toThrow(
      "--storage cloud is not one of real, simulated",
    );
  });

  it("as a duration, and as one that would make a busy loop", () => {
    expect(() => durationFlag("evaluation-interval", "soon", 100)).toThrow('--evaluation-interval: "soon" is not');
    expect(() => durationFlag("evaluation-interval", "0s", 100)).toThrow(
      "--evaluation-interval 0s is shorter than 100ms",
    );
  });
});
