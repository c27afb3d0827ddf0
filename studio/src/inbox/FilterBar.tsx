/** The filters of the inbox: words, and properties of questions. */

import { useQuery } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useId, useMemo, useRef, useState } from "react";
import { useKeys } from "../shell/keys";
import { useMe } from "../shell/me";
import { seesRuns } from "../shell/rights";
import { allWorkflows } from "../start/workflows";
import { type Filter, INPUT_TYPES } from "./filter";

interface FilterProps {
  filter: Filter;
  onChange: (filter: Filter) => void;
}

export function FilterBar({ filter, onChange }: FilterProps) {
  const [isOpen, setOpen] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  const panel = useId();
  const names = useNames(isOpen);
  useKeys({ "/": () => search.current?.focus() });
  const count = Object.keys(filter).filter((each) => each !== "q").length;
  const set = (name: keyof Filter) => (value: string) => onChange(withPart(filter, name, value));
  return (
    <search className="filters" aria-label="Questions">
      <div className="filters-line">
        <Typed
          label="Search"
          value={filter.q}
          onChange={set("q")}
          type="search"
          placeholder="Search"
          inputRef={search}
        />
        <button type="button" aria-expanded={isOpen} aria-controls={panel} onClick={() => setOpen(!isOpen)}>
          Filters{count > 0 && ` (${count})`}
        </button>
      </div>
      <div className="filters-panel" id={panel} hidden={!isOpen}>
        <Labelled label="Run">
          <Typed label="Run" value={filter.run} onChange={set("run")} />
        </Labelled>
        <Labelled label="Workflow">
          <Typed
            label="Workflow"
            value={filter.workflow}
            onChange={set("workflow")}
            names={names.workflows}
          />
        </Labelled>
        <Labelled label="Group">
          <Typed label="Group" value={filter.group} onChange={set("group")} names={names.groups} />
        </Labelled>
        <Labelled label="Assignee">
          <Typed label="Assignee" value={filter.asked} onChange={set("asked")} placeholder="group:finance" />
        </Labelled>
        <Labelled label="Type">
          <select
            aria-label="Type"
            value={filter.type ?? ""}
            onChange={(event) => set("type")(event.target.value)}
          >
            <option value="">Any</option>
            {INPUT_TYPES.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </Labelled>
        <Labelled label="Deadline">
          <select
            aria-label="Deadline"
            value={filter.due ?? ""}
            onChange={(event) => set("due")(event.target.value)}
          >
            <option value="">Any or none</option>
            <option value="day">Within a day</option>
          </select>
        </Labelled>
      </div>
    </search>
  );
}

/** The workflows announced by workers, to choose from; empty for users who may not see them. */
function useNames(isWanted: boolean): { workflows: readonly string[]; groups: readonly string[] } {
  const { data } = useQuery({ ...allWorkflows, enabled: seesRuns(useMe()) && isWanted });
  return useMemo(() => {
    const sorted = (names: string[]) => [...new Set(names)].sort();
    return {
      workflows: sorted(data?.map((each) => each.name) ?? []),
      groups: sorted(data?.map((each) => each.group) ?? []),
    };
  }, [data]);
}

function withPart(filter: Filter, name: keyof Filter, value: string): Filter {
  const rest = Object.entries(filter).filter(([each]) => each !== name);
  return Object.fromEntries(value === "" ? rest : [...rest, [name, value]]);
}

function Labelled({ label, children }: { label: string; children: React.ReactNode }) {
  return (
    <div className="filters-field">
      <span aria-hidden="true">{label}</span>
      {children}
    </div>
  );
}

interface TypedProps {
  label: string;
  value: string | undefined;
  onChange: (value: string) => void;
  type?: "search" | "text";
  placeholder?: string;
  inputRef?: React.RefObject<HTMLInputElement | null>;
  /** The suggestions. */
  names?: readonly string[];
}

const TYPING_MILLISECONDS = 150;

/** A field whose value is written to the address shortly after typing, and otherwise follows it. */
function Typed({ label, value = "", onChange, type = "text", placeholder, inputRef, names }: TypedProps) {
  const [typed, setTyped] = useState<string>();
  const tell = useEffectEvent(onChange);
  useEffect(() => {
    if (typed === undefined) return;
    const timer = window.setTimeout(() => {
      tell(typed.trim());
      setTyped(undefined);
    }, TYPING_MILLISECONDS);
    return () => window.clearTimeout(timer);
  }, [typed]);
  const list = useId();
  const field = (
    <input
      ref={inputRef}
      type={type}
      list={names && list}
      aria-label={label}
      placeholder={placeholder}
      value={typed ?? value}
      onChange={(event) => setTyped(event.target.value)}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        // which would empty it
        event.preventDefault();
        event.currentTarget.blur();
      }}
    />
  );
  if (names === undefined) return field;
  return (
    <>
      {field}
      <datalist id={list}>
        {names.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
    </>
  );
}
