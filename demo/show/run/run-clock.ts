// The run's own time: 0 until the writers begin, then milliseconds since. What the API dates by the wall clock is put on the same scale.

export interface RunClock {
  begin(): void;
  nowMs(): number;
  /** Of an RFC 3339 time in an object. */
  ofTimestamp(timestamp: string): number;
}

export function createRunClock(): RunClock {
  let began: { readonly monotonicMs: number; readonly wallMs: number } | undefined;
  return {
    begin: () => {
      began = { monotonicMs: performance.now(), wallMs: Date.now() };
    },
    nowMs: () => (began === undefined ? 0 : performance.now() - began.monotonicMs),
    ofTimestamp: (timestamp) => (began === undefined ? 0 : Math.max(0, Date.parse(timestamp) - began.wallMs)),
  };
}
