/** Parts of forms with labelled buttons, and a field for values that only JSON can express. */

import type {
  ArrayFieldItemTemplateProps,
  FieldProps,
  IconButtonProps,
  MultiSchemaFieldTemplateProps,
} from "@rjsf/utils";
import { useState } from "react";

function button(said: string) {
  return function FormButton({ id, onClick, disabled, className }: IconButtonProps) {
    return (
      <button
        type="button"
        id={id}
        className={`form-button ${className ?? ""}`}
        onClick={onClick}
        disabled={disabled}
      >
        {said}
      </button>
    );
  };
}

const AddItem = button("Add");
const AddField = button("Add a field");

function AddButton(props: IconButtonProps) {
  return props.className === "rjsf-object-property-expand" ? <AddField {...props} /> : <AddItem {...props} />;
}

export const BUTTONS = {
  AddButton,
  RemoveButton: button("Remove"),
  MoveUpButton: button("Up"),
  MoveDownButton: button("Down"),
  CopyButton: button("Copy"),
  ClearButton: button("Clear"),
};

/** An item of a list, with its buttons beside it, or below on narrow screens. */
export function ListItem({ children, buttonsProps, hasToolbar, registry }: ArrayFieldItemTemplateProps) {
  const { ArrayFieldItemButtonsTemplate: Buttons } = registry.templates;
  return (
    <div className="list-item">
      <div>{children}</div>
      {hasToolbar && (
        <div className="list-buttons">
          <Buttons {...buttonsProps} />
        </div>
      )}
    </div>
  );
}

/** The choice among several schemas, and the fields of the chosen one. */
export function Alternatives({ selector, optionSchemaField, schema }: MultiSchemaFieldTemplateProps) {
  return (
    <div className="alternatives">
      <label>
        <span className="unseen">Kind of {schema.title ?? "value"}</span>
        {selector}
      </label>
      {optionSchemaField}
    </div>
  );
}

/** A value without a schema: JSON or, if it is not JSON, the text itself. */
export function AnythingField({ formData, onChange, fieldPathId, schema, readonly }: FieldProps) {
  const [text, setText] = useState(() =>
    formData === null && schema.default === null ? "" : written(formData),
  );
  const help = `${fieldPathId.$id}__anything`;
  return (
    <>
      <textarea
        id={fieldPathId.$id}
        rows={2}
        className="code"
        spellCheck={false}
        readOnly={readonly}
        aria-describedby={help}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          onChange(read(event.target.value), fieldPathId.path);
        }}
      />
      <small id={help}>JSON, such as 12 or {'["a"]'}; other input counts as text</small>
    </>
  );
}

function written(value: unknown): string {
  if (value === undefined) return "";
  return typeof value === "string" && typeof read(value) === "string" ? value : JSON.stringify(value);
}

function read(text: string): unknown {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
