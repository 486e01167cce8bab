import { describe, expect, it } from "@jest/globals";
import * as z from "zod";
import { shortList } from "../../../../src/contracts/schema/schema.ts";

function looked(length: number, limit: number): { readonly items: number; readonly isRead: boolean } {
  let items = 0;
  const item = z.custom<number>((value) => {
    items += 1;
    return typeof value === "number";
  });
  const isRead = shortList(item, limit).safeParse(Array<number>(length).fill(1)).success;
  return { items, isRead };
}

describe("a short list", () => {
  it("is read as far as it is no longer than its limit", () => {
    expect(looked(4, 4)).toEqual({ items: 4, isRead: true });
  });

  it("is refused by its length alone, and none of its items is looked at", () => {
    expect(looked(5, 4)).toEqual({ items: 0, isRead: false });
  });

  it("says of a wrong item where it stands", () => {
    const { error } = shortList(z.number(), 4).safeParse([1, "two"]);
    expect(error?.issues.map(({ path }) => path)).toEqual([[1]]);
  });

  it("is no other value", () => {
    expect(shortList(z.number(), 4).safeParse({ length: 2 }).success).toBe(false);
  });
});
