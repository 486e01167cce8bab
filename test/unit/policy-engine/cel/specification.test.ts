// What the CEL specification says of everything in the dialect, where implementations are known to differ most.
import { describe, expect, it } from "@jest/globals";
import { aScope } from "../../../builders/cel-scope.ts";
import { problemIn, rule } from "./compiled.ts";

/** The right side is true on the scope and keeps the rule from being constant. */
const onFacts = (source: string) => `(${source}) == (volume.name == 'orders')`;
const texts = {
  minInt: "-9223372036854775808",
  maxInt: "9223372036854775807",
  over53: "9007199254740993",
  huge: "1e99",
  nan: "NaN",
  inf: "-inf",
  zero: "0",
  minusOne: "-1",
  hour: "1h",
  astral: "😀a",
  year1: "0001-01-01T00:00:00Z",
  year9999: "9999-12-31T23:59:59Z",
};
const scope = aScope({ volume: { annotations: texts } });
const text = (name: keyof typeof texts) => `volume.annotations.${name}`;
const int = (name: keyof typeof texts) => `int(${text(name)})`;
const double = (name: keyof typeof texts) => `double(${text(name)})`;

describe("true by the specification", () => {
  it.each([
    // int: 64 bits, truncating division, the remainder has the dividend's sign
    "9223372036854775807 - 1 + 1 == 9223372036854775807",
    "-9223372036854775808 + 1 == -9223372036854775807",
    "7 / 2 == 3 && -7 / 2 == -3 && 7 / -2 == -3",
    "7 % 3 == 1 && -7 % 3 == -1 && 7 % -3 == 1",
    "0x1F == 31 && -0xF == -15",
    "4611686018427387904 * -2 == -9223372036854775808",
    "9007199254740993 - 9007199254740992 == 1",
    `${int("over53")} == 9007199254740993 && ${int("over53")} != 9007199254740992`,
    `${int("minInt")} + 1 == -9223372036854775807`,
    `${int("maxInt")} / ${int("minusOne")} == -9223372036854775807`,
    `1.0 / double(0 * ${int("minusOne")}) == double('inf')`,
    // double: IEEE 754
    "1.0 / 0.0 == double('inf') && -1.0 / 0.0 == double('-inf')",
    "double('NaN') != double('NaN') && !(double('NaN') == double('NaN'))",
    "!(double('NaN') < 1.0) && !(double('NaN') >= 1.0)",
    "0.0 == -0.0 && 0.1 + 0.2 != 0.3",
    `${double("huge")} > 1e98 && ${double("inf")} < 0.0`,
    // int with double: by size, exactly
    "1 < 1.5 && 2 > 1.5 && 1 <= 1.0 && 1.0 >= 1",
    "9007199254740993 > 9007199254740992.0 && 9223372036854775807 < 9223372036854775808.0",
    `${int("over53")} > 9007199254740992.0 && !(${int("over53")} <= 9007199254740992.0)`,
    // conversions
    "int(1.9) == 1 && int(-1.9) == -1 && int('+7') == 7 && int('-0') == 0",
    "int(9007199254740994.0) == 9007199254740994 && int(-9223372036854774784.0) == -9223372036854774784",
    "double(2) == 2.0 && double('1.5e3') == 1500.0 && double('.5') == 0.5",
    "string(1) == '1' && string(-9223372036854775808) == '-9223372036854775808' && string(true) == 'true'",
    "string(1.5) == '1.5' && string(123.456) == '123.456' && string(double('NaN')) == 'NaN'",
    // strings are code points
    "size('😀a') == 2 && 'ÿ'.size() == 1 && ''.size() == 0",
    `size(${text("astral")}) == 2`,
    "'abc'.startsWith('ab') && 'abc'.endsWith('bc') && 'abc'.contains('') && !'abc'.contains('B')",
    "'TacoCÆt'.lowerAscii() == 'tacocÆt' && 'tacoCæt'.upperAscii() == 'TACOCæT'",
    "'a' + 'b' == \"ab\" && r'\\n' != '\\n' && '''a''' == 'a' && '\\u00e9' == 'é'",
    "'hubba'.matches('ubb') && !'hubba'.matches('^ubb') && 'ΩΩ'.matches('^\\\\pL+$')",
    // lists and maps
    "2 in [1, 2] && !('c' in ['a']) && 'a' in {'a': 1} && !(double('NaN') in [double('NaN')])",
    "[1, 2][1] == 2 && {'a': 1}.a == 1 && {'a': 1}['a'] == 1 && size([1] + [2, 3]) == 3",
    "[1, 2, 3].all(x, x > 0) && [1, 2, 3].exists(x, x == 2) && [1, 2, 2].exists_one(x, x == 1)",
    "![1, 2, 2].exists_one(x, x == 2) && [1, 2, 3].filter(x, x > 1).size() == 2",
    "[1, 2].map(x, x * 2)[1] == 4 && [1, 2, 3].map(x, x > 1, x * 2)[0] == 4",
    "{'a': 1, 'b': 2}.all(key, key in ['a', 'b'])",
    "[1, 2].exists(x, [3, 4].exists(y, x * y == 8))",
    // failures are absorbed by what decides, in either order
    `[0, 1].exists(x, 1 / x == 1) && ![0, 2].all(x, 1 / x == 1)`,
    `1 / ${int("zero")} > 0 || true == (volume.name != '')`,
    `volume.name != '' || 1 / ${int("zero")} > 0`,
    `!(1 / ${int("zero")} > 0 && volume.name == '')`,
    "volume.name != '' ? true : volume.labels.nothing == ''",
    // time
    "duration('1h30m') == duration('5400s') && duration('-1.5h') == duration('-90m') && duration('1ms') > duration('0')",
    "duration('1000us') == duration('1ms') && duration('500us500us') == duration('1ms')",
    "duration('1h') + duration('1m') == duration('61m') && duration('1h') - duration('2h') == duration('-1h')",
    "duration('90m').getHours() == 1 && duration('90m').getMinutes() == 90 && duration('-1500ms').getSeconds() == -1",
    `duration(${text("hour")}) == duration('60m')`,
    "timestamp('2009-02-13T23:31:30Z') + duration('1s') == timestamp('2009-02-13T23:31:31Z')",
    "timestamp('2009-02-13T23:31:30Z') - timestamp('2009-02-13T22:31:30Z') == duration('1h')",
    "timestamp('2009-02-13T23:31:30+01:30') == timestamp('2009-02-13T22:01:30Z')",
    "timestamp('0001-01-01T00:00:00Z') < timestamp('9999-12-31T23:59:59.999Z')",
    "timestamp('2024-02-29T00:00:00Z').getDayOfYear() == 59 && timestamp('2009-12-31T23:59:59Z').getDayOfYear() == 364",
    "timestamp('2009-02-13T23:31:20.123Z').getMilliseconds() == 123 && timestamp('2009-02-13T23:31:20Z').getMonth() == 1",
    "timestamp('2009-02-13T23:31:20Z').getDate() == 13 && timestamp('2009-02-13T23:31:20Z').getDayOfMonth() == 12",
    "timestamp('2009-02-13T23:31:20Z').getDayOfWeek() == 5 && timestamp('2009-02-13T23:31:20Z').getFullYear() == 2009",
    "timestamp('2009-02-13T02:00:00Z').getDate('Australia/Sydney') == 13",
    "timestamp('2009-02-13T23:31:30Z').getHours('America/St_Johns') == 20",
    "timestamp('2009-02-13T23:31:30Z').getMinutes('Asia/Kathmandu') == 16",
    "timestamp('2009-12-31T23:31:30Z').getFullYear('Asia/Tokyo') == 2010",
    "timestamp('0099-03-01T00:00:00Z').getDayOfYear() == 59",
    // the dialect's own
    "2 * 1.5 == 3.0 && 1.5 - 1 == 0.5 && 3 / 2.0 == 1.5 && 1 + 0.5 == 1.5",
    "quantity('1Ki') == 1024 && quantity('1k') == 1000 && quantity('1.5Gi') == 1610612736",
    "math.greatest(1, 2) == 2 && math.greatest(1, 2.5) == 2.5 && math.least(1, 2.5, -3) == -3.0",
    "percent(0.6) == '60%' && percent(0.8137) == '81.4%' && bytes(1610612736) == '1.50Gi' && bytes(0.5) == '1 B'",
    // grammar
    "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && -2 * 3 == -6 && 10 - 2 - 3 == 5 && !!true",
    "true || false && false",
    "(false ? 1 : true ? 2 : 3) == 2",
  ])("%s", (source) => {
    expect(rule(onFacts(source)).evaluate(scope)).toEqual({ ok: true, value: true });
  });
});

describe("an error by the specification, found at run time", () => {
  it.each([
    `${int("maxInt")} + 1 > 0`,
    `${int("minInt")} - 1 > 0`,
    `${int("maxInt")} * 2 > 0`,
    `-${int("minInt")} > 0`,
    `${int("minInt")} / ${int("minusOne")} > 0`,
    `1 / ${int("zero")} > 0`,
    `1 % ${int("zero")} > 0`,
    `int(${double("huge")}) > 0`,
    `int(${double("nan")}) > 0`,
    `int(${double("inf")}) > 0`,
    `int(${text("huge")}) > 0`,
    `int(${text("maxInt")} + '0') > 0`,
    `double(${text("hour")}) > 0.0`,
    `duration(${text("zero")} + 'x') > duration('0s')`,
    `timestamp(${text("hour")}) > now`,
    `[1, 2][${int("minusOne")}] > 0`,
    "volume.labels['none'] == ''",
    `[0, 1].all(x, 1 / x > 0)`,
    `[0, 1].exists_one(x, 1 / x > 0)`,
    `[0, 1].map(x, 1 / x).size() > 0`,
    `[0, 1].filter(x, 1 / x > 0).size() > 0`,
    `timestamp(${text("year9999")}) + duration('9223372036s') > now`,
    // a difference ends where 64 bits of nanoseconds do
    `timestamp(${text("year9999")}) - timestamp(${text("year1")}) > duration('0s')`,
    `timestamp(${text("year1")}) - timestamp(${text("year9999")}) < duration('0s')`,
  ])("%s", (source) => {
    expect(rule(onFacts(source)).evaluate(scope)).toMatchObject({ ok: false, kind: "RuleError" });
  });
});

describe("an error by the specification, found at compile time", () => {
  it.each([
    "9223372036854775807 + 1 > 0",
    "-(-9223372036854775808) > 0",
    "-9223372036854775808 / -1 > 0",
    "-9223372036854775809 < 0",
    "1 / 0 > 0",
    "int(1e99) > 0",
    "int(-9223372036854775808.0) < 0",
    "int('0x10') > 0",
    "int(' 1') > 0",
    "double('1e999') > 0.0",
    "duration('1d') > duration('1s')",
    "duration('') > duration('1s')",
    "duration('1') > duration('1s')",
    "duration('.s') > duration('1s')",
    "duration('9223372037s') > duration('1s')",
    "duration('-9223372037s') < duration('1s')",
    "timestamp('2026-01-01') > now",
    "timestamp('2026-01-01T24:00:00Z') > now",
    "timestamp('2026-01-01T00:00:60Z') > now",
    "timestamp('2026-13-01T00:00:00Z') > now",
    "timestamp('0000-12-31T00:00:00Z') > now",
    "timestamp('2026-01-01T00:00:00') > now",
    "[1, 2][2] > 0",
    "{'a': 1}.b > 0",
    "'\\ud83d' == ''",
    // no errors there, but finer than this dialect's milliseconds: refused, never rounded
    "duration('1us') > duration('0s')",
    "duration('0.5ns') > duration('0s')",
    "duration('1.0001ms') > duration('0s')",
    "timestamp('2026-01-01T00:00:00.0001Z') > now",
  ])("%s", (source) => {
    expect(problemIn(onFacts(source)).message).not.toBe("");
  });
});
