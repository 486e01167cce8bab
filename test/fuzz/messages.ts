// Messages of gRPC become others.
import { jsonMutator, type Mutate, mutateBytes } from "./mutate.ts";

/** What a message says is changed as often as its bytes are. */
export function messageMutator<T>(
  message: { decode(bytes: Uint8Array): T; encode(value: T): { finish(): Uint8Array } },
  words: readonly string[],
): Mutate {
  const mutateText = jsonMutator(words);
  return (random, input, other) => {
    if (random.chance(0.5)) return mutateBytes(random, input, other);
    try {
      const said = (bytes: Buffer): Buffer => Buffer.from(JSON.stringify(message.decode(bytes)));
      const changed = JSON.parse(mutateText(random, said(input), said(other)).toString("utf8")) as T;
      return Buffer.from(message.encode(changed).finish());
    } catch {
      return mutateBytes(random, input, other);
    }
  };
}
