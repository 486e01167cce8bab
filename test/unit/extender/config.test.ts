import { describe, expect, it } from "@jest/globals";
import { readConfig } from "../../../src/extender/config.ts";

describe("the extender's flags", () => {
  it("let it be asked without certificates from this machine alone", () => {
    expect(readConfig([], {}).tls).toBe("SelfMade");
    expect(readConfig(["--extender-tls", "Off", "--http-host", "127.0.0.1"], {}).tls).toBe("Off");
    expect(() => readConfig(["--extender-tls", "Off"], {})).toThrow("any client could ask for all room");
  });

  it("have defaults for everything", () => {
    expect(readConfig([], {})).toMatchObject({
      httpPort: 9474,
      extenderPort: 9473,
      holdLimitMs: 60_000,
      placement: { offeredNodes: 32, weights: { free: 2, growth: 1, io: 1 }, defaultDivisor: 1, divisors: new Map() },
    });
  });

  it("set a divisor for each device class", () => {
    const { divisors } = readConfig(["--divisor", "ssd=10", "--divisor", "hdd=0.5"], {}).placement;
    expect(divisors).toEqual(
      new Map([
        ["ssd", 10],
        ["hdd", 0.5],
      ]),
    );
  });

  const refused: readonly (readonly [string[], string])[] = [
    [["--divisor", "ssd"], "--divisor ssd is not CLASS=NUMBER"],
    [["--divisor", "ssd=0"], "--divisor 0: nothing is divided by 0"],
    [["--weight-io", "-1"], "--weight-io"],
    [["--weight-io=NaN"], "--weight-io NaN is not a number from 0 to 1000000"],
    [["--weight-free", "1e308"], "--weight-free 1e308 is not a number from 0 to 1000000"],
    [["--offered-nodes", "0"], "--offered-nodes 0 is not a number from 1 to 5000"],
    [["--hold-limit", "1ms"], "--hold-limit 1ms is shorter than 100ms"],
  ];
  it.each(refused)("are refused with a sentence: %p", (args, sentence) => {
    expect(() => readConfig(args, {})).toThrow(sentence);
  });
});
