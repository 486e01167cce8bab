// Which suites that have failed are run once more, alone, when all others are done. A machine with two cores that runs several suites beside each
// other now and then is too late for a limit, or gives a loop device's number to two at once; a bug fails alone, too. What passed only then is
// printed as UNSTABLE: a defect of the test, to be mended. (docs/adr/0013-what-is-run-when.md)

/** More that fail have one cause, which a second try would only find again. */
const MOST = 3;

/** One failure in many tries is what these look for. */
const EACH_FAILURE_COUNTS = /crash|kill|power-cut|hostile|fuzz|simulation|lost|removal|copies|shrink/;

/** In their order. None where one of them must not be tried again. */
export function worthSecondTry(failed: readonly string[]): readonly string[] {
  const isRefused = failed.length > MOST || failed.some((suite) => EACH_FAILURE_COUNTS.test(suite));
  return isRefused ? [] : failed;
}
