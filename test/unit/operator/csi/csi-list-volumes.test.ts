import { describe, expect, it } from "@jest/globals";
import { type Driver, LOCAL, SPAN } from "../../../../src/contracts/csi/driver.ts";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { listVolumes } from "../../../../src/operator/csi/read-calls.ts";
import { buildLayout, reported } from "../../../builders/volume.ts";

const handle = (digit: number): string => `fs-${digit}1111111-2222-4333-8444-555555555555`;
const layoutOf = (digit: number): FilesystemLayout => {
  const layout = buildLayout({ status: reported(`${digit}Gi`) });
  return { ...layout, metadata: { ...layout.metadata, name: handle(digit) } };
};

/** Pages until there is no token, with what happens to the store between them. */
function pagesOf(
  layouts: FilesystemLayout[],
  maxEntries: number,
  between: (page: number) => void = () => {},
): string[][] {
  const pages: string[][] = [];
  let startingToken = "";
  do {
    const answer = listVolumes({ list: () => [...layouts] }, LOCAL, { maxEntries, startingToken });
    pages.push(answer.entries.map(({ volume }) => volume?.volumeId ?? ""));
    startingToken = answer.nextToken;
    between(pages.length);
  } while (startingToken !== "");
  return pages;
}

describe("ListVolumes", () => {
  it("answers each driver with its own volumes, and binds one that moves to no node", () => {
    const span = layoutOf(2);
    const layouts = [layoutOf(1), { ...span, spec: { ...span.spec, backend: "span" as const } }];
    const listed = (driver: Driver) => {
      const answer = listVolumes({ list: () => layouts }, driver, { maxEntries: 0, startingToken: "" });
      return answer.entries.map(({ volume }) => volume);
    };
    expect(listed(LOCAL).map((volume) => volume?.volumeId)).toEqual([handle(1)]);
    expect(listed(SPAN)).toMatchObject([{ volumeId: handle(2), accessibleTopology: [] }]);
  });

  it("answers with present sizes and nodes, in the order of handles", () => {
    const answer = listVolumes({ list: () => [layoutOf(2), layoutOf(1)] }, LOCAL, { maxEntries: 0, startingToken: "" });
    expect(answer).toMatchObject({
      nextToken: "",
      entries: [
        { volume: { volumeId: handle(1), capacityBytes: GIB } },
        {
          volume: {
            volumeId: handle(2),
            capacityBytes: 2 * GIB,
            accessibleTopology: [{ segments: { "topology.tidemark.dev/node": "node-1" } }],
          },
        },
      ],
    });
  });

  it("says that a size is not known, and never 0 bytes of a known one", () => {
    const unknown = buildLayout({ spec: { members: [] } });
    const answer = listVolumes({ list: () => [unknown] }, LOCAL, { maxEntries: 0, startingToken: "" });
    expect(answer).toMatchObject({ entries: [{ volume: { capacityBytes: 0 } }] });
  });

  it("pages without a gap and without a volume twice", () => {
    const layouts = [3, 1, 5, 2, 4].map(layoutOf);
    expect(pagesOf(layouts, 2)).toEqual([[handle(1), handle(2)], [handle(3), handle(4)], [handle(5)]]);
    expect(pagesOf(layouts, 5)).toHaveLength(1);
    expect(pagesOf([], 2)).toEqual([[]]);
  });

  it("goes on where it was when the last volume of a page is deleted, and shows those that were added behind it", () => {
    const layouts = [1, 2, 4].map(layoutOf);
    const pages = pagesOf(layouts, 2, (page) => {
      if (page === 1) layouts.splice(1, 1, layoutOf(3));
    });
    expect(pages).toEqual([
      [handle(1), handle(2)],
      [handle(3), handle(4)],
    ]);
  });

  it.each(["invalid-token", "../../etc", handle(1).toUpperCase(), "x".repeat(5000)])(
    "aborts at the token %.40s, which no page gave",
    (startingToken) => {
      const list = () => listVolumes({ list: () => [layoutOf(1)] }, LOCAL, { maxEntries: 0, startingToken });
      expect(list).toThrow(expect.objectContaining({ code: "ABORTED", message: expect.stringMatching(/^.{1,299}$/) }));
    },
  );

  it("refuses a negative number of entries", () => {
    expect(() => listVolumes({ list: () => [] }, LOCAL, { maxEntries: -1, startingToken: "" })).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT" }),
    );
  });
});
