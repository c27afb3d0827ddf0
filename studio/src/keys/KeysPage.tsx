/** Keys: the credentials of services and workers. */

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, given } from "../api/client";
import { Asking } from "../lists/Asking";
import { PlainPage } from "../lists/PlainPage";
import { number } from "../lists/said";
import { type Column, Table } from "../lists/Table";
import { useList } from "../lists/useList";
import { StateMark } from "../runs/StateMark";
import { Closed, isClosed } from "../shell/Closed";
import { useMe } from "../shell/me";
import { Since, Until } from "../time/Times";
import { type Key, type Kind, type NewKey, stateOf } from "./key";
import { Making } from "./Making";
import { Secret } from "./Secret";

const HOUR = 3_600;

const COLUMNS: Column<Key>[] = [
  {
    name: "Key",
    cell: ({ name, id }) => (
      <>
        <b>{name}</b>
        <small>{id}</small>
      </>
    ),
  },
  {
    name: "May",
    cell: ({ kind, roles, act_as, groups }) => (
      <>
        {kind === "service" && <span>{roles.join(", ") || "nothing"}</span>}
        {act_as && <span>may act for people</span>}
        <small>{groups === null ? "all groups" : `groups ${groups.join(", ")}`}</small>
      </>
    ),
  },
  {
    name: "Made",
    cell: ({ created_at, created_by }) => (
      <>
        <Since at={created_at} />
        {created_by && <small>by {created_by}</small>}
      </>
    ),
  },
  {
    name: "Used",
    cell: ({ used_at }) => (used_at == null ? <span className="soft">never</span> : <Since at={used_at} />),
  },
  { name: "State", cell: (key) => <State shown={key} /> },
];

function State({ shown }: { shown: Key }) {
  const state = stateOf(shown);
  if (state === "revoked" || state === "expired") return <StateMark state={state} />;
  if (shown.expires_at == null) return <span className="soft">does not end</span>;
  return (
    <span>
      ends <Until at={shown.expires_at} />
    </span>
  );
}

export function KeysPage() {
  const { kind = "service" } = useSearch({ strict: false }) as { kind?: Kind };
  const me = useMe();
  const navigate = useNavigate();
  const [made, setMade] = useState<NewKey | null>(null);
  const keys = useList<Key>(["keys", { kind }], (after) =>
    given(api.GET("/v1/keys", { params: { query: { kind, limit: 100, ...(after && { after }) } } })),
  );
  if (isClosed(keys.error, me)) {
    return (
      <PlainPage title="API keys">
        <Closed title="Keys need an authenticated caller" command="signoff keys list" />
      </PlainPage>
    );
  }
  const columns = [
    ...COLUMNS,
    {
      name: "Do",
      cell: (key: Key) => stateOf(key) === "open" && <Controls shown={key} onMade={setMade} />,
    },
  ];
  return (
    <PlainPage
      title="API keys"
      controls={
        keys.isLoaded && (
          <>
            <fieldset className="segments" aria-label="Whose keys">
              {(["service", "worker"] as const).map((each) => (
                <button
                  key={each}
                  type="button"
                  aria-pressed={each === kind}
                  onClick={() => navigate({ to: "/keys", search: { kind: each } as never })}
                >
                  {each === "service" ? "Services" : "Workers"}
                </button>
              ))}
            </fieldset>
            <Making kind={kind} onMade={setMade} />
          </>
        )
      }
    >
      <Table
        label="API keys"
        list={keys}
        columns={columns}
        keyOf={({ id }) => id}
        empty={
          <>
            <h2>{kind === "service" ? "No service keys" : "No worker keys"}</h2>
            <p>
              {kind === "service"
                ? "A program that starts or reads runs sends a key with each request. Its roles determine its rights."
                : "A worker on another machine takes runs through this server, and authenticates with a key."}
            </p>
          </>
        }
      />
      {made !== null && <Secret made={made} onClose={() => setMade(null)} />}
    </PlainPage>
  );
}

function Controls({ shown, onMade }: { shown: Key; onMade: (made: NewKey) => void }) {
  const path = { params: { path: { key_id: shown.id } } };
  return (
    <>
      <Asking
        verb="Rotate"
        title={`Rotate ${shown.name}?`}
        list="keys"
        send={async (said) => {
          const grace_seconds = (number(said, "hours") ?? 0) * HOUR;
          onMade(await given(api.POST("/v1/keys/{key_id}/rotate", { ...path, body: { grace_seconds } })));
        }}
      >
        <p>This makes another key with the same rights. The old one ends later.</p>
        <label>
          Hours until the old key ends
          <input name="hours" type="number" min={0} step="any" defaultValue={24} required />
        </label>
      </Asking>
      <Asking
        verb="Revoke"
        title={`Revoke ${shown.name}?`}
        list="keys"
        className="danger"
        send={() => given(api.POST("/v1/keys/{key_id}/revoke", path))}
      >
        <p>It stops working at once, permanently.</p>
      </Asking>
    </>
  );
}
