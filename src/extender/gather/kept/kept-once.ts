// What many objects have in common, kept once: it is kept whole when it is given again.

export interface Once {
  /** The same text, in the memory of whoever was first. */
  text<T extends string | undefined>(text: T): T;
  /** The same shape, likewise: nobody may change it. */
  shape<T extends object>(shape: T): T;
}

/** Texts that are seen too many of are not worth it: they are begun anew. */
const TEXTS_LIMIT = 50_000;
/** Shapes that are seen too many of are begun anew, too: each is known by its whole text. */
const SHAPES_LIMIT = 10_000;

export function createOnce(): Once {
  const texts = new Map<string, string>();
  const shapes = new Map<string, object>();
  return {
    text: <T extends string | undefined>(text: T): T => {
      if (text === undefined) return text;
      const known = texts.get(text);
      if (known !== undefined) return known as T;
      if (texts.size >= TEXTS_LIMIT) texts.clear();
      texts.set(text, text);
      return text;
    },
    shape: <T extends object>(shape: T): T => {
      const text = JSON.stringify(shape);
      const known = shapes.get(text);
      if (known !== undefined) return known as T;
      if (shapes.size >= SHAPES_LIMIT) shapes.clear();
      shapes.set(text, shape);
      return shape;
    },
  };
}
