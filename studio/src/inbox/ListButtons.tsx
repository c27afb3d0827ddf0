/** The buttons of a form's lists, in words: no font of icons is there. */

import type { IconButtonProps } from "@rjsf/utils";

function Button({ words, disabled, onClick }: IconButtonProps & { words: string }) {
  return (
    <button type="button" className="list-button" disabled={disabled} onClick={onClick}>
      {words}
    </button>
  );
}

export const LIST_BUTTONS = {
  AddButton: (props: IconButtonProps) => <Button {...props} words="Add" />,
  CopyButton: (props: IconButtonProps) => <Button {...props} words="Copy" />,
  MoveUpButton: (props: IconButtonProps) => <Button {...props} words="Up" />,
  MoveDownButton: (props: IconButtonProps) => <Button {...props} words="Down" />,
  RemoveButton: (props: IconButtonProps) => <Button {...props} words="Remove" />,
};
