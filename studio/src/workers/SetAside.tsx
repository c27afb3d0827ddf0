/** Failing items of periodic jobs, such as a schedule with a damaged row: errors, and times of the next tries. */

import { Link } from "@tanstack/react-router";
import { api, given } from "../api/client";
import type { components } from "../api/schema";
import { type Column, Table } from "../lists/Table";
import { useList } from "../lists/useList";
import { useMe } from "../shell/me";
import { mayOperate } from "../shell/rights";
import { Since, Until } from "../time/Times";

type Item = components["schemas"]["SetAsideItem"];

/** Jobs whose items are runs. */
const OF_RUNS = ["timer", "deadline", "lease", "ended run"];

const COLUMNS: Column<Item>[] = [
  {
    name: "Item",
    cell: (item) => (
      <>
        <small>{item.job}</small>
        <Name item={item} />
      </>
    ),
  },
  { name: "Error", cell: ({ error }) => <span className="why">{error}</span> },
  {
    name: "Failures",
    cell: ({ failures, first_at }) => (
      <>
        <span>{failures}</span>
        <small>
          first <Since at={first_at} />
        </small>
      </>
    ),
  },
  { name: "Next try", cell: ({ next_at }) => <Until at={next_at} /> },
];

function Name({ item: { job, id } }: { item: Item }) {
  if (job === "question") {
    return (
      <Link to="/inbox/$id" params={{ id }}>
        {id}
      </Link>
    );
  }
  if (OF_RUNS.includes(job)) {
    return (
      <Link to="/runs/$id" params={{ id }}>
        {id}
      </Link>
    );
  }
  return <b>{id}</b>;
}

/** Empty for people who may not see them, and while none fails. */
export function SetAside() {
  return mayOperate(useMe()) ? <Items /> : null;
}

function Items() {
  const items = useList<Item>(["set-aside"], (after) =>
    given(api.GET("/v1/set-aside", { params: { query: { ...(after !== undefined && { after }) } } })),
  );
  if (items.items.length === 0 && items.error === null) return null;
  return (
    <>
      <h2>Failing items</h2>
      <p>Each was set aside alone and will be retried. The other items of its job continue.</p>
      <Table
        label="Failing items"
        list={items}
        columns={COLUMNS}
        keyOf={({ job, id }) => `${job}/${id}`}
        empty={null}
      />
    </>
  );
}
