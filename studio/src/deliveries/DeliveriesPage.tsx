/** Notifications: sent, waiting, or given up, which can be sent again. */

import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { api, given } from "../api/client";
import type { components } from "../api/schema";
import { PlainPage } from "../lists/PlainPage";
import { type Column, Table } from "../lists/Table";
import { Trouble } from "../lists/Trouble";
import { type Act, useAct } from "../lists/useAct";
import { useList } from "../lists/useList";
import { StateMark } from "../runs/StateMark";
import { useMe } from "../shell/me";
import { mayOperate } from "../shell/rights";
import { Since, Until } from "../time/Times";

type Delivery = components["schemas"]["Delivery"];
type State = components["schemas"]["DeliveryState"];

const STATES: [State, string][] = [
  ["dead", "dead: given up"],
  ["pending", "pending: waits"],
  ["delivered", "delivered"],
  ["dropped", "dropped: needless"],
];

const COLUMNS: Column<Delivery>[] = [
  { name: "State", cell: ({ state }) => <StateMark state={state} /> },
  {
    name: "To",
    cell: ({ channel, recipient }) => (
      <>
        <b>{channel}</b>
        {recipient !== "" && <span>{recipient}</span>}
      </>
    ),
  },
  {
    name: "About",
    cell: ({ kind, question_id }) => (
      <>
        <span>{kind.replaceAll("_", " ")}</span>
        <Link to="/inbox/$id" params={{ id: question_id }}>
          {question_id}
        </Link>
      </>
    ),
  },
  { name: "Made", cell: ({ created_at }) => <Since at={created_at} /> },
  {
    name: "Attempts",
    cell: ({ attempts, due_at, state }) => (
      <>
        <span>{attempts}</span>
        {state === "pending" && due_at !== undefined && (
          <small>
            next <Until at={due_at} />
          </small>
        )}
      </>
    ),
  },
  { name: "Why", cell: ({ error }) => error },
];

export function DeliveriesPage() {
  const me = useMe();
  const act = useAct("deliveries");
  const { state } = useSearch({ strict: false }) as { state?: State };
  const navigate = useNavigate();
  const deliveries = useList<Delivery>(["deliveries", { state }], (after) =>
    given(
      api.GET("/v1/deliveries", {
        params: { query: { limit: 100, ...(state && { state }), ...(after && { after }) } },
      }),
    ),
  );
  const columns = mayOperate(me)
    ? [...COLUMNS, { name: "Do", cell: (each: Delivery) => <Again delivery={each} act={act} /> }]
    : COLUMNS;
  return (
    <PlainPage
      title="Deliveries"
      controls={
        <label className="filter">
          <span className="unseen">State</span>
          <select
            value={state ?? ""}
            onChange={(event) =>
              void navigate({
                to: "/deliveries",
                search: (event.target.value ? { state: event.target.value } : {}) as never,
              })
            }
          >
            <option value="">Any state</option>
            {STATES.map(([value, said]) => (
              <option key={value} value={value}>
                {said}
              </option>
            ))}
          </select>
        </label>
      }
    >
      <Trouble error={act.error} />
      <Table
        label="Deliveries"
        list={deliveries}
        columns={columns}
        keyOf={({ id }) => id}
        empty={
          state === undefined ? (
            <>
              <h2>No deliveries</h2>
              <p>
                Notifications of questions are sent by mail, Slack, webhooks and others, which a file of
                channels names:
              </p>
              <code>signoff server --channels channels.toml</code>
            </>
          ) : (
            <h2>None in this state</h2>
          )
        }
      />
    </PlainPage>
  );
}

function Again({ delivery, act }: { delivery: Delivery; act: Act }) {
  if (delivery.state === "pending") return null;
  const path = { params: { path: { delivery_id: delivery.id } } };
  return (
    <button
      type="button"
      disabled={act.isBusy}
      onClick={() => act.run(() => given(api.POST("/v1/deliveries/{delivery_id}/redeliver", path)))}
    >
      Send again
    </button>
  );
}
