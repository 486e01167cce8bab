// Jest runs TypeScript as ES modules through swc. Suites are picked by folder: see the Makefile.
export default {
  testEnvironment: "node",
  extensionsToTreatAsEsm: [".ts"],
  transform: {
    "^.+\\.ts$": [
      "@swc/jest",
      {
        jsc: { parser: { syntax: "typescript" }, target: "es2023" },
        module: { type: "es6" },
      },
    ],
  },
  testMatch: ["<rootDir>/test/**/*.test.ts"],
  modulePathIgnorePatterns: ["<rootDir>/dist"],
  watchman: false,
  // Timings decide no test: this only ends one that hangs. Waits inside a test end sooner, and say what was there instead.
  testTimeout: 300_000,
  testSequencer: "<rootDir>/test/longest-first.mjs",
};
