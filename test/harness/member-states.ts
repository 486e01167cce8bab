// The members of a span in words, "m0 2Gi Present", as a layout asks for them or as its node reports them.
interface Member {
  readonly name: string;
  readonly size?: string | undefined;
  readonly state?: string | undefined;
}

export function memberStates(members: readonly Member[] | undefined): string[] {
  return (members ?? []).map(({ name, size, state }) => `${name} ${size} ${state}`);
}
