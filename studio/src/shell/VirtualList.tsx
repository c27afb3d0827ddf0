/** A list with only its visible rows in the page, however long it is. */

import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef } from "react";

interface ListProps<T> {
  label: string;
  items: readonly T[];
  rowPixels: number;
  keyOf: (item: T) => string;
  row: (item: T) => ReactNode;
  /** The end is near: more may be loaded. */
  onEnd: () => void;
  /** The item that is scrolled to. */
  at?: number | undefined;
}

const NEAR = 20;

export function VirtualList<T>({ label, items, rowPixels, keyOf, row, onEnd, at = -1 }: ListProps<T>) {
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowPixels,
    overscan: 10,
    getItemKey: (index) => (index < items.length ? keyOf(items[index] as T) : index),
  });
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (items.length > 0 && last >= items.length - NEAR) onEnd();
  }, [last, items.length, onEnd]);
  useEffect(() => {
    if (at >= 0) rows.scrollToIndex(at, { align: "auto" });
  }, [at, rows]);
  return (
    <div className="list" ref={scroller}>
      <ul aria-label={label} style={{ height: rows.getTotalSize() }}>
        {shown.map(({ index, start, key }) => (
          <li key={key} style={{ transform: `translateY(${start}px)`, height: rowPixels }}>
            {row(items[index] as T)}
          </li>
        ))}
      </ul>
    </div>
  );
}
