// The order in which suites are handed to Jest's workers: the kill matrix first, since it takes longer than any other, and would
// otherwise run alone at the end while the second core has nothing to do.
import TestSequencer from "@jest/test-sequencer";

const LONGEST = "/test/real/kill-matrix.test.ts";

export default class LongestFirst extends TestSequencer {
  sort(tests) {
    const isLongest = ({ path }) => path.endsWith(LONGEST);
    return [...tests.filter(isLongest), ...super.sort(tests.filter((test) => !isLongest(test)))];
  }
}
