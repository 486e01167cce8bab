import { expect } from "@jest/globals";
import fc from "fast-check";
import { createStore } from "../../../../../src/platform/kube/cache/store.ts";
import { property } from "../../../../harness/property.ts";

interface Coloured {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly colours: readonly string[];
}

const name = fc.constantFrom("a", "b", "c", "d");
const colours = fc.uniqueArray(fc.constantFrom("red", "green", "blue"));

property(
  "an index finds of each value the objects that have it now, as looking through all of them would",
  { runs: 100, reaches: { "an object that is there": 0.5 } },
  [fc.array(fc.tuple(name, fc.option(colours)), { maxLength: 40 })],
  (reach, changes) => {
    const store = createStore<Coloured>({ colour: (object) => object.colours });
    for (const [of, now] of changes) {
      if (now === null) store.remove(of);
      else store.put({ apiVersion: "v1", kind: "Coloured", metadata: { name: of }, colours: now });
      for (const colour of ["red", "green", "blue"]) {
        const found = store.byIndex("colour", colour).map(({ metadata }) => metadata.name);
        const all = store.list().filter((object) => object.colours.includes(colour));
        if (found.length > 0) reach("an object that is there");
        expect(found.sort()).toEqual(all.map(({ metadata }) => metadata.name).sort());
      }
    }
  },
);
