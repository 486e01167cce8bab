// Where the outside world is changed. Every command, API write, RPC and file write passes through `Effects.run` under a
// named point, so that the kill matrix can end the process right before and right after each of them. The names are
// collected from the source into test/effect-points.json (`make generate`).

/** "operation/step", e.g. "extend/grow-file"; always a string literal at the call, so that it can be collected. */
export type EffectPoint = `${string}/${string}`;

export interface Effects {
  /** Runs one side effect. A fault planted at `point/before` or `point/after` fires here and nowhere else. */
  run<T>(point: EffectPoint, effect: () => Promise<T>): Promise<T>;
}

/** The production port: runs the effect and nothing else. */
export const directEffects: Effects = {
  run: (_point, effect) => effect(),
};
