/** Boxes that are stacked or put beside each other, from top to bottom in a flow's direction. */

/** The predecessor of the next box, with the arrow's label and the number of passes. */
export interface End {
  from: string;
  label?: string | undefined;
  count: number;
}

export interface Box {
  width: number;
  height: number;
  /** Draw it with its upper left corner there; returns the predecessor of the next box. */
  draw(x: number, y: number, begins: readonly End[]): readonly End[];
}

const BELOW = 42;
const BESIDE = 28;

export const EMPTY: Box = { width: 0, height: 0, draw: (_x, _y, begins) => begins };

/** A stack; each box follows the one above. */
export function stack(boxes: readonly Box[]): Box {
  const shown = boxes.filter(({ height }) => height > 0);
  const width = Math.max(0, ...boxes.map((box) => box.width));
  const height = shown.reduce((sum, box) => sum + box.height, 0) + BELOW * Math.max(0, shown.length - 1);
  return {
    width,
    height,
    draw(x, y, begins) {
      let [top, ends] = [y, begins];
      for (const box of boxes) {
        ends = box.draw(x + (width - box.width) / 2, top, ends);
        if (box.height > 0) top += box.height + BELOW;
      }
      return ends;
    },
  };
}

/** A row. All boxes have one predecessor, unless `beginsOf` differs. The next box follows all that are `joined`. */
export function row(
  boxes: readonly Box[],
  beginsOf: (index: number, begins: readonly End[]) => readonly End[] = (_, begins) => begins,
  joined: (index: number) => boolean = () => true,
): Box {
  const width = boxes.reduce((sum, box) => sum + box.width, 0) + BESIDE * Math.max(0, boxes.length - 1);
  return {
    width,
    height: Math.max(0, ...boxes.map((box) => box.height)),
    draw(x, y, begins) {
      let left = x;
      return boxes.flatMap((box, index) => {
        const ends = box.draw(left, y, beginsOf(index, begins));
        left += box.width + BESIDE;
        return joined(index) ? ends : [];
      });
    },
  };
}
