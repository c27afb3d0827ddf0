/** A list as a table; on a phone each row is a card. */

import type { ReactNode } from "react";
import { Guarded } from "../shell/Guarded";
import { Trouble } from "./Trouble";
import type { List } from "./useList";

export interface Column<T> {
  name: string;
  cell: (item: T) => ReactNode;
}

interface TableProps<T> {
  label: string;
  list: List<T>;
  columns: Column<T>[];
  keyOf: (item: T) => string;
  /** The text of an empty list, with a hint. */
  empty: ReactNode;
}

/** A cell as a component of its own, so that an error affects only itself. */
function Cell<T>({ of, item }: { of: (item: T) => ReactNode; item: T }) {
  return of(item);
}

export function Table<T>({ label, list, columns, keyOf, empty }: TableProps<T>) {
  if (list.items.length === 0) {
    return (
      <>
        <Trouble error={list.error} />
        {list.isLoaded && <div className="empty">{empty}</div>}
      </>
    );
  }
  return (
    <>
      <Trouble error={list.error} />
      <table aria-label={label}>
        <thead>
          <tr>
            {columns.map(({ name }) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {list.items.map((item) => (
            <tr key={keyOf(item)}>
              {columns.map(({ name, cell }) => (
                <td key={name} data-label={name}>
                  <div>
                    <Guarded name={name}>
                      <Cell of={cell} item={item} />
                    </Guarded>
                  </div>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {list.more && (
        <button type="button" className="more" disabled={list.isLoadingMore} onClick={list.more}>
          Show more
        </button>
      )}
    </>
  );
}
