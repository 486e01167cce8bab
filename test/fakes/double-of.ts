// A stand-in for a wide type of which one case uses little. What is given has the type's own types; whatever else is asked of it throws,
// so that a case never goes on with an undefined that the real object does not have.

/** `given` may name an optional field as undefined; one that it does not name is no part of the double. */
export function doubleOf<T extends object>(what: string, given: Given<T>): T {
  return new Proxy(given, {
    get: (target, key) => {
      // A symbol and "then" are asked of any value, by what awaits or prints it.
      if (key in target || typeof key === "symbol" || key === "then") return Reflect.get(target, key) as unknown;
      throw new Error(`the double of ${what} has no "${key}"`);
    },
  }) as T;
}

type Given<T> = { readonly [K in keyof T]?: T[K] | undefined };
