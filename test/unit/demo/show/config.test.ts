import { describe, expect, it } from "@jest/globals";
import { readDemoConfig, readWriterConfig } from "../../../../demo/show/config.ts";

describe("the demo's flags", () => {
  it("may all be absent", () => {
    expect(readDemoConfig([])).toMatchObject({
      json: false,
      keep: false,
      simulated: false,
      bytesPerSecond: 60_000_000,
    });
  });

  it("accept --yes, which the setup before it reads", () => {
    expect(() => readDemoConfig(["--yes", "--json", "--keep"])).not.toThrow();
  });

  it.each([
    [["--rate-mb", "0"], "--rate-mb 0 is not a whole number from 1 to 10000"],
    [["--rate-mb", "fast"], "--rate-mb fast is not a whole number"],
    [["--port", "70000"], "--port 70000 is not a whole number from 0 to 65535"],
    [["--colour"], "--colour"],
  ])("refuse %j with a sentence", (args, sentence) => {
    expect(() => readDemoConfig(args)).toThrow(sentence);
  });
});

describe("the writer's flags", () => {
  it("need a directory", () => {
    expect(() => readWriterConfig([])).toThrow("--directory is required");
  });
});
