// The order in which suites are handed to Jest's workers: those first that took longest when test/suite-seconds.json was written, which would
// otherwise run alone at the end while the second core has nothing to do.
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import TestSequencer from "@jest/test-sequencer";

/** By path. */
const SECONDS = JSON.parse(readFileSync(new URL("suite-seconds.json", import.meta.url), "utf8"));

export default class LongestFirst extends TestSequencer {
  sort(tests) {
    const seconds = ({ path }) => SECONDS[relative(".", path)] ?? 0;
    const known = tests.filter((test) => seconds(test) > 0).sort((a, b) => seconds(b) - seconds(a));
    return [...known, ...super.sort(tests.filter((test) => seconds(test) === 0))];
  }
}
